// Ranks and whole hosts are killed at every moment of a step, and of the
// recovery from that: those who are left on all hosts go on, from memory or
// from a checkpoint, with the parameters that plain libtorch gets from the same
// batches.
#include <sys/wait.h>

#include <csignal>
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
        layout, "moe", config, {.kills = {{rank, at("engine.moment", moment)}}});
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
  }
}

TEST(HostsRecovery, SurvivesTheLossOfAHostAtAnyMomentWithCopies) {
  int first = 0;
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    const int moments = kill_at_moments_on(
        kThreeHosts, with_copies(recovery_config(setting)), ++first, 7);
    EXPECT_GT(moments, 60);
  }
}

} // namespace
} // namespace zero::test
