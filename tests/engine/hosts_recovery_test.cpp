// Ranks and whole hosts are killed at every moment of a step, and of the
// recovery from that: those who are left on all hosts go on, from memory or
// from a checkpoint, with the parameters that plain libtorch gets from the same
// batches.
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "comm/host_processes.h"
#include "engine/through_losses.h"
#include "thoroughness.h"

namespace zero::test {
namespace {

struct Kills {
  std::vector<Kill> kills;
  std::string folder = {};
  int64_t saves_until = 0;
};

// Returns which of the ranks were killed. The others have ended well.
std::set<int> killed_on_hosts(
    const std::vector<int>& layout,
    const std::string& model,
    const Config& config,
    const Kills& what) {
  HostProcesses ranks(layout, [&](World world) {
    Disturbance disturbance{
        .failpoints = {},
        .folder = what.folder,
        .saves_until = what.saves_until};
    for (const auto& kill : what.kills) {
      if (kill.rank == world.rank()) {
        disturbance.failpoints = kill.failpoints;
      }
    }
    train_through_losses(world, model, config, disturbance);
  });
  std::set<int> dead;
  for (int rank = 0; rank < static_cast<int>(layout.size()); ++rank) {
    const int status = ranks.wait(rank);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      dead.insert(rank);
    } else {
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }
  return dead;
}

Config with_copies(Config config) {
  config.libzero.redundancy = 1;
  return config;
}

const std::vector<int> kTwoHosts{0, 0, 1, 1};
const std::vector<int> kThreeHosts{0, 1, 2};

// Kills a rank at every `stride`-th moment until there are no more. Returns how
// many there were.
int kill_at_moments_on(
    const std::vector<int>& layout,
    const Config& config,
    int first,
    int stride) {
  for (int moment = first;; moment += one_of(4) * stride) {
    const int rank = moment % static_cast<int>(layout.size());
    SCOPED_TRACE(c10::str("rank ", rank, " killed at moment ", moment));
    const auto dead = killed_on_hosts(
        layout,
        "moe",
        config,
        {.kills = {{rank, at("engine.moment", moment)}}});
    if (dead.empty() || ::testing::Test::HasFailure()) {
      return moment;
    }
    EXPECT_EQ(dead, std::set<int>{rank});
  }
}

TEST(HostsRecovery, SurvivesTheLossOfARankWhoseHostLivesAtAnyMoment) {
  int first = 0;
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const int moments =
        kill_at_moments_on(kTwoHosts, recovery_config(setting), ++first, 11);
    EXPECT_GT(moments, 60);
    if (HasFailure()) {
      return;
    }
  }
}

TEST(HostsRecovery, SurvivesTheLossOfAHostAtAnyMomentWithCopies) {
  int first = 0;
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const int moments = kill_at_moments_on(
        kThreeHosts, with_copies(recovery_config(setting)), ++first, 7);
    EXPECT_GT(moments, 60);
    if (HasFailure()) {
      return;
    }
  }
}

// All ranks of a host at once, of which one may have come further than another.
TEST(HostsRecovery, SurvivesTheLossOfAllRanksOfAHostWithCopies) {
  for (const Setting setting :
       {Setting{1, true}, Setting{2, false}, Setting{3, true}}) {
    for (int moment = 3; moment < 90; moment += 6 * one_of(4)) {
      const int host = moment / 3 % 2;
      SCOPED_TRACE(c10::str(setting, ", host ", host, ", moment ", moment));
      const auto dead = killed_on_hosts(
          kTwoHosts,
          "moe",
          with_copies(recovery_config(setting)),
          {.kills = {
               {2 * host, at("engine.moment", moment)},
               {2 * host + 1, at("engine.moment", moment + 1)}}});
      EXPECT_EQ(dead, (std::set<int>{2 * host, 2 * host + 1}));
      if (HasFailure()) {
        return;
      }
    }
  }
}

// A rank beside the one that keeps the copy, or that one itself, is lost with
// the host whose copy it is.
TEST(HostsRecovery, SurvivesTheLossOfAHostAndOfARankOfItsKeeper) {
  for (const Setting setting : {Setting{1, false}, Setting{3, true}}) {
    for (int moment = 5; moment < 90; moment += 9 * one_of(4)) {
      SCOPED_TRACE(c10::str(setting, ", moment ", moment));
      const int beside = moment % 2 == 0 ? 1 : 2;
      const auto dead = killed_on_hosts(
          {0, 1, 1, 2},
          "moe",
          with_copies(recovery_config(setting)),
          {.kills = {
               {0, at("engine.moment", moment)},
               {beside, at("engine.moment", moment + 1)}}});
      EXPECT_EQ(dead, (std::set<int>{0, beside}));
      if (HasFailure()) {
        return;
      }
    }
  }
}

// A second one is killed at every moment of the recovery from the loss of the
// first, before the round was decided or after.
TEST(HostsRecovery, SurvivesAnotherLossWhileItGoesOn) {
  for (const Setting setting : {Setting{2, true}, Setting{3, false}}) {
    for (const int first : {3, 45}) {
      for (int moment = 1;; moment += one_of(3)) {
        SCOPED_TRACE(c10::str(
            setting, ", moments ", first, " and ", moment, " of the recovery"));
        const int second = moment % 2 == 0 ? 0 : 3;
        const auto dead = killed_on_hosts(
            {0, 0, 1, 1, 2},
            "moe",
            with_copies(recovery_config(setting)),
            {.kills = {
                 {4, at("engine.moment", first)},
                 {second, at("recovery.moment", moment)}}});
        EXPECT_TRUE(dead.contains(4));
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

// A folder of its own, and what is left of it removed.
class SavedHostsRecovery : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "hosts_recovery_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }
  // Every run saves to a folder of its own.
  std::string next_folder() {
    return c10::str(folder_, "/", ++num_folders_);
  }

 private:
  std::string folder_;
  int num_folders_ = 0;
};

// Without copies: to the last step that was saved.
TEST_F(SavedHostsRecovery, TheLossOfAHostGoesBackToTheLastCheckpoint) {
  int first = 30;
  for (const auto& setting : all_settings()) {
    for (int moment = ++first; moment < 110; moment += 17 * one_of(4)) {
      SCOPED_TRACE(c10::str(setting, ", moment ", moment));
      const int rank = moment % 3;
      const auto dead = killed_on_hosts(
          kThreeHosts,
          "moe",
          recovery_config(setting),
          {.kills = {{rank, at("engine.moment", moment)}},
           .folder = next_folder(),
           .saves_until = 1});
      EXPECT_TRUE(dead.empty() || dead == std::set<int>{rank});
      if (HasFailure()) {
        return;
      }
    }
  }
}

// With copies: a host and its keeper, which nobody has a copy of.
TEST_F(SavedHostsRecovery, TheLossOfTwoNeighboursGoesBackToTheLastCheckpoint) {
  for (const Setting setting : {Setting{2, true}, Setting{3, false}}) {
    const auto dead = killed_on_hosts(
        {0, 1, 2, 3},
        "moe",
        with_copies(recovery_config(setting)),
        {.kills = {{1, at("engine.moment", 60)}, {2, at("engine.moment", 60)}},
         .folder = next_folder(),
         .saves_until = 1});
    EXPECT_EQ(dead, (std::set<int>{1, 2}));
  }
}

TEST_F(SavedHostsRecovery, SurvivesAnotherLossWhileItGoesBack) {
  for (int moment = 1;; moment += one_of(3)) {
    SCOPED_TRACE(c10::str("moment ", moment, " of the recovery"));
    const auto dead = killed_on_hosts(
        {0, 1, 1, 2},
        "moe",
        recovery_config({3, true}),
        {.kills =
             {{3, at("engine.moment", 60)},
              {moment % 2, at("recovery.moment", moment)}},
         .folder = next_folder(),
         .saves_until = 1});
    EXPECT_TRUE(dead.contains(3));
    if (HasFailure()) {
      return;
    }
    if (dead.size() == 1) {
      EXPECT_GT(moment, 4);
      break;
    }
  }
}

TEST_F(SavedHostsRecovery, TellsWhatWasLost) {
  const std::string folder = next_folder();
  HostProcesses ranks({0, 1}, [&](World world) {
    const Model model = make_model("moe");
    Engine engine(world, model.module, recovery_config({2, true}));
    const auto run = [&] {
      return engine.run([&](int64_t) { return model.loss(7); });
    };
    run();
    engine.save(folder);
    run();
    run();
    try {
      world.barrier(); // the steps are done on both
      if (world.rank() == 1) {
        ::kill(::getpid(), SIGKILL);
      }
    } catch (const PeerLost&) {
    }
    engine.backward(model.loss(7));
    const auto result = engine.step();
    EXPECT_TRUE(result.abandoned);
    EXPECT_EQ(result.steps_lost, 2);
    EXPECT_EQ(result.step, 1);
    ASSERT_EQ(engine.recoveries().size(), 1U);
    const auto& recovery = engine.recoveries().front();
    EXPECT_EQ(recovery.step, 3);
    EXPECT_EQ(recovery.steps_lost, 2);
    ASSERT_TRUE(recovery.loaded.has_value());
    EXPECT_EQ(recovery.loaded->step, 1);
    EXPECT_EQ(run().step, 2);
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(WTERMSIG(ranks.wait(1)), SIGKILL);
}

TEST(HostsRecovery, WithoutCopiesAndCheckpointsThereIsNothingToGoOnWith) {
  HostProcesses ranks({0, 1}, [&](World world) {
    const Model model = make_model("moe");
    Engine engine(world, model.module, recovery_config({2, true}));
    std::string error;
    try {
      world.barrier(); // the engines are there
      if (world.rank() == 1) {
        ::kill(::getpid(), SIGKILL);
      }
      engine.backward(model.loss(7));
      engine.step();
    } catch (const PeerLost&) { // or in the barrier
    }
    try {
      engine.recover();
    } catch (const PeerLost& lost) {
      error = lost.what();
      EXPECT_EQ(lost.rank(), 1);
    }
    EXPECT_NE(error.find("nothing has been saved"), std::string::npos) << error;
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

} // namespace
} // namespace zero::test
