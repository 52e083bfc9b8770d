// What is fetched ahead is used as if it had been fetched when needed: the
// order of use that is recorded does not depend on how fast it arrives.
#include <zero/zero.h>

#include <gtest/gtest.h>

#include "comm/run_hosts.h"
#include "engine/engine_state.h"
#include "engine/oracle.h"

namespace zero::test {
namespace {

gather::GatherStatistics statistics_of(
    const HostRank& rank,
    int64_t fetched_ahead,
    bool shared) {
  constexpr int kSteps = 6;
  Config config;
  config.zero_optimization.stage = 3;
  config.zero_optimization.stage3_prefetch_bucket_size = fetched_ahead;
  config.libzero.shared_memory = shared;
  config.libzero.gather_budget.bytes = 60'000; // about half of the model
  const Model model = make_model("gpt");
  engine::EngineState state(rank.world, model.module, config, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    state.backward(model.loss(batch_seed(step, 0, rank.world.rank())));
    state.step();
  }
  rank.world.barrier(); // others may still read what this one has
  return state.statistics();
}

TEST(Prefetch, ChangesWhenUnitsComeAndNotWhatIsUsed) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    run_hosts({0, 0, 1, 1}, [shared](const HostRank& rank) {
      const auto without = statistics_of(rank, 0, shared);
      const auto with = statistics_of(rank, 10'000, shared);
      EXPECT_EQ(without.prefetches, 0);
      EXPECT_GT(with.prefetches, 0);
      EXPECT_EQ(with.uses, without.uses);
      EXPECT_EQ(without.surprises, 0);
      EXPECT_EQ(with.surprises, 0);
    });
  }
}

} // namespace
} // namespace zero::test
