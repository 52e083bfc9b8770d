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
#include "engine/through_losses.h"
#include "thoroughness.h"

namespace zero::test {
namespace {

constexpr int kNumSettingsOfRun = 7;

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
    train_through_losses(world, model, config, {.failpoints = failpoints});
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

// Kills a rank at every `stride`-th moment until there are no more. Returns how
// many there were.
int kill_at_moments(
    const std::string& model,
    const Config& config,
    int first,
    int stride) {
  for (int moment = first;; moment += one_of(4) * stride) {
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

// Together the settings meet every moment; each of them alone some.
TEST(Recovery, SurvivesALossAtAnyMomentOfAStep) {
  int first = 0;
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const int moments = kill_at_moments(
        "moe", recovery_config(setting), ++first, kNumSettingsOfRun);
    // Buckets come and are reduced, the round is decided, chunks are updated.
    EXPECT_GT(moments, 100);
  }
}

TEST(Recovery, KeepsBuffersAndTiedAndFrozenParameters) {
  for (const std::string model : {"resnet", "gpt", "odd"}) {
    for (const Setting setting : {Setting{1, true}, Setting{3, false}}) {
      SCOPED_TRACE(c10::str(model, ", ", setting));
      kill_at_moments(model, sgd_recovery_config(setting), 5, 193);
    }
  }
}

TEST(Recovery, RunsAccumulatedRoundsAgainFromTheirFirstMicroBatch) {
  for (const Setting setting :
       {Setting{0, true}, Setting{2, true}, Setting{3, false}}) {
    SCOPED_TRACE(c10::str(setting));
    kill_at_moments("moe", accumulating(recovery_config(setting), 3), 7, 41);
  }
}

// A second rank is killed at every moment of the recovery from the loss of the
// first, which was killed before the round was decided, or after.
TEST(Recovery, SurvivesAnotherLossWhileItGoesOn) {
  for (const Setting setting : {Setting{2, true}, Setting{1, false}}) {
    for (const int first : {3, 70}) {
      for (int moment = 1;; moment += one_of(4)) {
        SCOPED_TRACE(c10::str(
            setting, ", moments ", first, " and ", moment, " of the recovery"));
        const int second = moment % 2 == 0 ? 0 : 2;
        const auto dead = killed(
            4,
            "moe",
            recovery_config(setting),
            {{1, at("engine.moment", first)},
             {second, at("recovery.moment", moment)}});
        EXPECT_TRUE(dead.contains(1));
        if (HasFailure()) {
          return;
        }
        if (dead.size() == 1) {
          EXPECT_GT(moment, 8);
          break;
        }
      }
    }
  }
}

TEST(Recovery, OneRankIsLeftOfThree) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const auto dead = killed(
        3,
        "moe",
        recovery_config(setting),
        {{0, at("engine.moment", 20)}, {1, at("engine.moment", 110)}});
    EXPECT_EQ(dead, (std::set<int>{0, 1}));
  }
}

TEST(Recovery, IsNotTriedWhereTheConfigurationSaysSo) {
  Processes ranks(2, [](World world) {
    Config config = recovery_config({2, true});
    config.libzero.on_peer_lost = LibzeroConfig::OnPeerLost::raise;
    base::set_failpoints(world.rank() == 1 ? at("engine.moment", 30) : "");
    const Model model = make_model("moe");
    Engine engine(world, model.module, config);
    const auto train = [&] {
      for (int step = 0; step < kStepsOfRun; ++step) {
        engine.backward(model.loss(batch_seed(step, 0, world.rank())));
        engine.step();
      }
    };
    EXPECT_THROW(train(), PeerLost);
    EXPECT_EQ(world.size(), 2);
    EXPECT_TRUE(engine.recoveries().empty());
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(WTERMSIG(ranks.wait(1)), SIGKILL);
}

TEST(Recovery, RatesAndCountsOfUpdatesGoOn) {
  Processes ranks(3, [](World world) {
    base::set_failpoints(world.rank() == 0 ? at("engine.moment", 40) : "");
    const Model model = make_model("moe");
    Engine engine(world, model.module, recovery_config({3, true}));
    engine.set_lr(0.125);
    while (engine.global_step() < kStepsOfRun) {
      engine.run([&](int64_t micro) {
        return model.loss(batch_seed(
            static_cast<int>(engine.global_step()),
            static_cast<int>(micro),
            world.rank()));
      });
    }
    EXPECT_EQ(engine.lr(), 0.125);
    EXPECT_EQ(world.size(), 2);
    ASSERT_EQ(engine.recoveries().size(), 1U);
    EXPECT_EQ(engine.recoveries()[0].ranks, std::vector<int>{0});
    world.barrier(); // the world's own communicator works, too
  });
  EXPECT_EQ(WTERMSIG(ranks.wait(0)), SIGKILL);
  EXPECT_EQ(ranks.wait(1), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

// One rank learns of the loss in one engine, and another in the other.
TEST(Recovery, TwoEnginesOfAProcessGoOnTogether) {
  for (int moment = 10; moment < 500; moment += 37 * one_of(3)) {
    Processes ranks(3, [moment](World world) {
      base::set_failpoints(
          world.rank() == 1 ? at("engine.moment", moment) : "");
      const Model first = make_model("moe");
      const Model second = make_model("odd");
      Engine engine(world, first.module, recovery_config({2, true}));
      Engine other(world, second.module, recovery_config({3, false}));
      for (int step = 0; step < kStepsOfRun; ++step) {
        const auto seed = batch_seed(step, 0, world.rank());
        engine.run([&](int64_t) { return first.loss(seed); });
        other.run([&](int64_t) { return second.loss(seed); });
      }
      EXPECT_EQ(engine.global_step(), kStepsOfRun);
      EXPECT_EQ(other.global_step(), kStepsOfRun);
    });
    EXPECT_EQ(ranks.wait(0), 0) << moment;
    EXPECT_EQ(ranks.wait(2), 0) << moment;
  }
}

TEST(Recovery, AStoppedRankIsKilledFirst) {
  Processes ranks(2, [](World world) {
    Config config = recovery_config({2, true});
    config.libzero.timeout_seconds = 1;
    base::set_failpoints(world.rank() == 1 ? "engine.moment:stop@30" : "");
    const Model model = make_model("moe");
    Engine engine(world, model.module, config);
    while (engine.global_step() < kStepsOfRun) {
      engine.backward(model.loss(7));
      engine.step();
    }
    EXPECT_EQ(world.size(), 1);
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(WTERMSIG(ranks.wait(1)), SIGKILL);
}

// Ranks that have no more batches take part in it, too.
TEST(Recovery, JoinGoesOn) {
  for (int moment = 10; moment < 300; moment += 23 * one_of(3)) {
    Processes ranks(3, [moment](World world) {
      base::set_failpoints(
          world.rank() == 1 ? at("engine.moment", moment) : "");
      const Model model = make_model("moe");
      Engine engine(world, model.module, recovery_config({2, true}));
      for (int step = 0; step < world.rank(); ++step) {
        engine.run([&](int64_t) { return model.loss(7); });
      }
      engine.join();
      EXPECT_GE(engine.global_step(), 1);
      world.barrier();
    });
    EXPECT_EQ(ranks.wait(0), 0) << moment;
    EXPECT_EQ(ranks.wait(2), 0) << moment;
  }
}

} // namespace
} // namespace zero::test
