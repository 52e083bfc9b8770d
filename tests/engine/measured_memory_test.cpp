// The memory account against what the kernel says.
#include <malloc.h>
#include <sys/mman.h>
#include <torch/nn.h>
#include <zero/zero.h>

#include <cmath>
#include <fstream>

#include "base/tensor_memory.h"
#include "comm/ranks.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

constexpr int kMeasuredRanks = 2;
constexpr double kMega = 1e6;

struct Sums {
  double account = 0;
  double measured = 0;
};

int64_t proportional_set_size() {
  std::ifstream file("/proc/self/smaps_rollup");
  int64_t kilobytes = 0;
  for (std::string word; file >> word;) {
    if (word == "Pss:" && file >> kilobytes) {
      break;
    }
  }
  return kilobytes * 1024;
}

int64_t total(const MemoryAccount& account) {
  return account.parameters + account.gathered + account.gradients +
      account.optimizer + account.buffers;
}

// Over all ranks, between backward and update of the third step.
Sums memory_of(const Setting& setting) {
  auto* results = static_cast<Sums*>(::mmap(
      nullptr,
      kMeasuredRanks * sizeof(Sums),
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_ANONYMOUS,
      -1,
      0));
  run_ranks(Backend::shm, kMeasuredRanks, [&](World world) {
    torch::nn::Sequential net;
    for (int i = 0; i < 6; ++i) {
      net->push_back(torch::nn::Linear(1536, 1536));
    }
    Config config = plain_config(setting);
    config.optimizer.type = OptimizerConfig::Type::adam;
    config.zero_optimization.reduce_bucket_size = 1 << 20;
    Engine engine(world, net.ptr(), config);
    for (int step = 0; step < 3; ++step) {
      engine.backward(net->forward(torch::ones({2, 1536})).sum());
      if (step < 2) {
        engine.step();
      }
    }
    // What is kept for the next tensors is no part of the engine.
    ::malloc_trim(0);
    const auto kept =
        static_cast<int64_t>(base::large_tensor_memory().idle_bytes);
    world.barrier();
    results[world.rank()] = {
        static_cast<double>(total(engine.memory())),
        static_cast<double>(proportional_set_size() - kept)};
    world.barrier();
  });
  Sums sums;
  for (int rank = 0; rank < kMeasuredRanks; ++rank) {
    sums.account += results[rank].account;
    sums.measured += results[rank].measured;
  }
  ::munmap(results, kMeasuredRanks * sizeof(Sums));
  return sums;
}

TEST(MeasuredMemory, DiffersBetweenStagesAsTheAccountDoes) {
  const Sums plain = memory_of({0, true});
  for (const auto& setting : all_settings()) {
    if (setting.stage == 0) {
      continue;
    }
    const Sums sums = memory_of(setting);
    const double account = plain.account - sums.account;
    const double measured = plain.measured - sums.measured;
    EXPECT_GT(account, 80 * kMega) << setting;
    EXPECT_LE(std::abs(measured - account), 0.05 * account + 32 * kMega)
        << setting << ": the account has " << account / kMega
        << " MB less than stage 0, measured were " << measured / kMega;
    RecordProperty(
        c10::str("stage_", setting.stage, setting.shared ? "_shared" : ""),
        c10::str(account / kMega, " ", measured / kMega));
  }
}

} // namespace
} // namespace zero::test
