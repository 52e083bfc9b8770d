// Ranks are killed at every moment of a step, and of the recovery from that:
// those who are left go on, with the parameters that plain libtorch gets from
// the same batches.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <set>

#include "base/failpoint.h"
#include "comm/ranks.h"
#include "engine/models.h"
#include "engine/oracle.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

constexpr int kStepsOfRun = 4;

// Who took part in each step, by what an engine tells of its recoveries. Ranks
// are the numbers at the start.
std::vector<std::vector<int>> who_took_part(
    int num_ranks,
    const std::vector<Recovery>& recoveries) {
  std::vector<int> present(static_cast<size_t>(num_ranks));
  std::iota(present.begin(), present.end(), 0);
  std::vector<std::vector<int>> by_step;
  size_t next = 0;
  for (int64_t step = 0; step < kStepsOfRun; ++step) {
    std::vector<int> takes_part = present;
    while (next < recoveries.size() &&
           recoveries[next].step + (recoveries[next].is_round_abandoned ? 0 : 1) <=
               step) {
      std::vector<int> left;
      for (size_t rank = 0; rank < present.size(); ++rank) {
        const auto& lost = recoveries[next].ranks;
        if (std::ranges::find(lost, static_cast<int>(rank)) == lost.end()) {
          left.push_back(present[rank]);
        }
      }
      present = left;
      takes_part = left;
      ++next;
    }
    by_step.push_back(takes_part);
  }
  return by_step;
}

void expect_plain_training_of(
    const std::string& model_name,
    const Config& config,
    const std::vector<std::vector<int>>& who,
    const torch::nn::Module& trained) {
  torch::manual_seed(7);
  const Model model = make_model(model_name);
  const auto optimizer =
      make_torch_optimizer(model.module->parameters(), config.optimizer);
  const auto accumulation = static_cast<int>(
      config.gradient_accumulation_steps.value_or(1));
  for (size_t step = 0; step < who.size(); ++step) {
    optimizer->zero_grad();
    for (int micro = 0; micro < accumulation; ++micro) {
      for (const int rank : who[step]) {
        const auto loss =
            model.loss(batch_seed(static_cast<int>(step), micro, rank));
        (loss / accumulation / static_cast<double>(who[step].size())).backward();
      }
    }
    optimizer->step();
  }
  const auto expected = model.module->parameters();
  const auto parameters = trained.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(
        torch::allclose(parameters[i], expected[i], 1e-4, 1e-6))
        << "parameter " << i;
  }
}

// What each rank does until all steps are done.
void train(
    World world,
    const std::string& model_name,
    const Config& config,
    const std::string& failpoints) {
  const int number = world.rank();
  const int num_ranks = world.size();
  base::set_failpoints(failpoints);
  torch::manual_seed(7);
  const Model model = make_model(model_name);
  Engine engine(world, model.module, config);
  int64_t num_abandoned = 0;
  while (engine.global_step() < kStepsOfRun) {
    const auto step = static_cast<int>(engine.global_step());
    StepResult result;
    for (int micro = 0; !result.updated && !result.abandoned; ++micro) {
      engine.backward(model.loss(batch_seed(step, micro, number)));
      result = engine.step();
    }
    num_abandoned += result.abandoned ? 1 : 0;
    EXPECT_EQ(engine.global_step(), step + (result.updated ? 1 : 0));
    EXPECT_EQ(result.step, engine.global_step());
  }
  const auto& recoveries = engine.recoveries();
  // A round may be abandoned before this rank has begun it.
  EXPECT_LE(num_abandoned, static_cast<int64_t>(recoveries.size()));
  const auto who = who_took_part(num_ranks, recoveries);
  EXPECT_EQ(world.size(), recoveries.empty() ? num_ranks : recoveries.back().num_left);
  const auto guard = engine.gather(*model.module);
  expect_plain_training_of(model_name, config, who, *model.module);
}

struct Kill {
  int rank = 0;
  std::string failpoints;
};

Config recovery_config(const Setting& setting) {
  Config config = adam_config(setting);
  config.libzero.consistency_check_every = 1;
  return config;
}

// Returns which of the ranks were killed. The others have ended well.
std::set<int> killed(
    int num_ranks,
    const std::string& model,
    const Config& config,
    const std::vector<Kill>& kills) {
  Processes ranks(num_ranks, [&](World world) {
    std::string failpoints;
    for (const auto& kill : kills) {
      if (kill.rank == world.rank()) {
        failpoints = kill.failpoints;
      }
    }
    train(world, model, config, failpoints);
  });
  std::set<int> dead;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int status = ranks.wait(rank);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      dead.insert(rank);
    } else {
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }
  return dead;
}

std::string at(const std::string& point, int number) {
  return c10::str(point, ":kill@", number);
}

// Kills at every `stride`-th moment until there are no more. Returns how many
// there were.
int kill_at_every_moment(
    const std::string& model,
    const Config& config,
    int first,
    int stride) {
  int moment = first;
  for (;; moment += stride) {
    const int rank = moment % 3; // each in turn, rank 0 too
    SCOPED_TRACE(c10::str("rank ", rank, " killed at moment ", moment));
    const auto dead =
        killed(3, model, config, {{rank, at("engine.moment", moment)}});
    if (dead.empty() || ::testing::Test::HasFailure()) {
      return moment;
    }
    EXPECT_EQ(dead, std::set<int>{rank});
  }
}

TEST(Recovery, SurvivesALossAtAnyMomentOfAStep) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const int moments =
        kill_at_every_moment("moe", recovery_config(setting), 1, 1);
    std::printf("%d moments\n", moments);
  }
}

} // namespace
} // namespace zero::test
