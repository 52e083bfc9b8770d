// A module that is partitioned over ranks becomes one file.
#include <zero/zero.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "comm/ranks.h"
#include "engine/error_of.h"
#include "engine/models.h"
#include "engine/settings.h"
#include "launch/job.h"

namespace zero::test {
namespace {

TEST(Export, TensorsAreTheModules) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      auto net = build<TinyResNet>();
      Engine engine(world, net.ptr(), plain_config(setting));
      engine.export_safetensors(path);
      if (world.rank() != 0) {
        return;
      }
      const std::string bytes = read_file(path);
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), sizeof(length));
      const auto header = nlohmann::json::parse(bytes.substr(8, length));
      const auto guard = engine.gather(*net);
      auto tensors = net->named_parameters();
      for (const auto& item : net->named_buffers()) {
        tensors.insert(item.key(), item.value());
      }
      EXPECT_EQ(header.size(), tensors.size() + 1); // and the metadata
      for (const auto& item : tensors) {
        const auto& entry = header.at(item.key());
        EXPECT_EQ(
            entry.at("shape").get<std::vector<int64_t>>(),
            item.value().sizes().vec());
        const auto begin = entry.at("data_offsets").at(0).get<size_t>();
        const at::Tensor own = item.value().contiguous();
        EXPECT_EQ(
            std::memcmp(
                bytes.data() + 8 + length + begin,
                own.const_data_ptr(),
                own.nbytes()),
            0)
            << item.key();
      }
    });
  }
}

TEST(Export, IfItFailsEveryRankKnowsAndGoesOn) {
  run_threads(2, [&](World world) {
    auto net = build<TinyResNet>();
    Engine engine(world, net.ptr(), plain_config({3, false}));
    const std::string path = "/nowhere/model.safetensors";
    const std::string text = error_of([&] { engine.export_safetensors(path); });
    EXPECT_TRUE(has(text, path)) << text;
    EXPECT_TRUE(has(text, world.rank() == 0 ? "Fix: " : "rank 0")) << text;
    world.barrier();
  });
}

struct WithComplexBufferImpl : torch::nn::Module {
  WithComplexBufferImpl() {
    weight = register_parameter("weight", torch::ones({3}));
    phase = register_buffer("phase", torch::ones({3}, torch::kComplexFloat));
  }
  at::Tensor weight, phase;
};
TORCH_MODULE(WithComplexBuffer);

TEST(Export, ATypeTheFormatDoesNotHaveIsAnErrorOnEveryRank) {
  const TemporaryFolder folder;
  run_threads(2, [&](World world) {
    WithComplexBuffer net;
    Engine engine(world, net.ptr(), plain_config({2, true}));
    const std::string path = folder.path() / "model.safetensors";
    const std::string text = error_of([&] { engine.export_safetensors(path); });
    EXPECT_TRUE(has(text, world.rank() == 0 ? "'phase'" : "rank 0")) << text;
    world.barrier();
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

} // namespace
} // namespace zero::test
