// The engine has the losses that plain PyTorch, FSDP2 and DeepSpeed had, at
// every stage. golden_losses.json has them, with the configurations and the
// model; bench/peers/golden_losses.py made it, and needs not run again for
// this.
#include <zero/zero.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "../../bench/gpt.h"
#include "comm/ranks.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

using Losses = std::vector<double>;

struct Golden {
  int ranks = 0;
  int64_t batches = 0; // different ones of a rank, used over and over
  bench::GptOptions model;
  nlohmann::json cases;
};

Golden read_golden() {
  const auto path =
      std::filesystem::path(__FILE__).parent_path() / "golden_losses.json";
  const auto file = nlohmann::json::parse(std::ifstream(path));
  const auto& model = file.at("model");
  return {
      .ranks = file.at("ranks"),
      .batches = file.at("batches"),
      .model =
          {.d_model = model.at("d_model"),
           .layers = model.at("layers"),
           .heads = model.at("heads"),
           .vocabulary = model.at("vocabulary"),
           .length = model.at("length")},
      .cases = file.at("cases")};
}

// The weights come from the process's generator, the tokens from generators of
// their own: the ranks are threads.
bench::Gpt make_gpt(const bench::GptOptions& options) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(42);
  return bench::Gpt(options);
}

at::Tensor make_tokens(
    const Golden& golden,
    int64_t number,
    int64_t batch,
    int rank) {
  return random_ints(
      golden.model.vocabulary,
      {batch, golden.model.length + 1},
      static_cast<uint64_t>(1000 * (number % golden.batches) + rank));
}

// The mean over ranks and micro-batches, by step.
Losses train(const Golden& golden, const Config& config, size_t num_steps) {
  Losses losses(num_steps, 0);
  std::mutex mutex;
  run_threads(golden.ranks, [&](World world) {
    auto gpt = make_gpt(golden.model);
    const auto sizes = config.batch_sizes(world.size());
    Engine engine(world, gpt.ptr(), config);
    for (size_t step = 0; step < num_steps; ++step) {
      engine.run([&](int64_t micro_step) {
        const auto number =
            static_cast<int64_t>(step) * sizes.accumulation + micro_step;
        const auto loss =
            gpt->loss(make_tokens(golden, number, sizes.micro, world.rank()));
        const std::lock_guard lock(mutex);
        losses[step] += loss.item<double>() /
            static_cast<double>(world.size() * sizes.accumulation);
        return loss;
      });
    }
  });
  return losses;
}

void expect_near(const Losses& losses, const Losses& golden, double tolerance) {
  ASSERT_EQ(losses.size(), golden.size());
  for (size_t step = 0; step < golden.size(); ++step) {
    EXPECT_NEAR(losses[step], golden[step], tolerance * golden[step])
        << "step " << step;
  }
}

TEST(GoldenLosses, AreMetAtEveryStage) {
  at::globalContext().setUserEnabledMkldnn(false); // as in make_model()
  const Golden golden = read_golden();
  for (const auto& tested : golden.cases) {
    auto config = Config::from_json(tested.at("config").dump());
    config.zero_optimization.reduce_bucket_size = 5000; // several buckets
    const auto all = tested.at("losses").get<std::map<std::string, Losses>>();
    const size_t num_steps = all.at("plain").size();
    for (int stage = 0; stage <= 3; ++stage) {
      for (const bool shared : {true, false}) {
        config.zero_optimization.stage = stage;
        config.libzero.shared_memory = shared;
        const Losses losses = train(golden, config, num_steps);
        for (const auto& [engine, expected] : all) {
          SCOPED_TRACE(c10::str(
              tested.at("name").get<std::string>(),
              ", ",
              Setting{stage, shared},
              ", against ",
              engine));
          expect_near(losses, expected, engine == "plain" ? 1e-5 : 1e-4);
        }
      }
    }
  }
}

} // namespace
} // namespace zero::test
