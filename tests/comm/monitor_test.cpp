// Who lives, found out by whoever watches. Ranks are real processes.
#include "comm/monitor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace zero::comm {
namespace {

using std::chrono::milliseconds;

bool becomes_true(const std::function<bool()>& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(60)) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// Rank 1 as a process that does `body` after joining.
class Peer {
 public:
  Peer(Roster roster, const std::function<void()>& body) {
    pid_ = ::fork();
    if (pid_ == 0) {
      roster.join(1);
      {
        const Monitor monitor(roster, 1, 1.0);
        body();
      }
      ::_exit(0);
    }
  }
  ~Peer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const {
    return pid_;
  }

 private:
  pid_t pid_;
};

void sleep_long() {
  std::this_thread::sleep_for(std::chrono::seconds(300));
}

TEST(Monitor, AKilledProcessIsLost) {
  auto roster = Roster::create(2);
  roster.join(0);
  const Peer peer(roster, sleep_long);
  const Monitor monitor(roster, 0, 10);
  ASSERT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::alive; }));
  ::kill(peer.pid(), SIGKILL);
  EXPECT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::lost; }));
}

TEST(Monitor, ABusyProcessIsNotLost) {
  auto roster = Roster::create(2);
  roster.join(0);
  const Peer peer(roster, [] {
    std::atomic<bool> forever = true;
    while (forever) {
    }
  });
  const Monitor monitor(roster, 0, 1.0);
  ASSERT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::alive; }));
  std::this_thread::sleep_for(milliseconds(3000));
  EXPECT_EQ(roster.state(1), MemberState::alive);
}

TEST(Monitor, AStoppedProcessIsKilledBeforeItIsLost) {
  auto roster = Roster::create(2);
  roster.join(0);
  const Peer peer(roster, sleep_long);
  const Monitor monitor(roster, 0, 1.0);
  ASSERT_TRUE(becomes_true([&] { return roster.heartbeat(1) > 3; }));
  ::kill(peer.pid(), SIGSTOP);
  ASSERT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::lost; }));
  // Already dead, so this returns at once.
  siginfo_t info{};
  ASSERT_EQ(
      ::waitid(
          P_PID,
          static_cast<id_t>(peer.pid()),
          &info,
          WEXITED | WNOWAIT | WNOHANG),
      0);
  EXPECT_EQ(info.si_pid, peer.pid());
  EXPECT_EQ(info.si_code, CLD_KILLED);
  EXPECT_EQ(info.si_status, SIGKILL);
}

TEST(Monitor, AnUnreapedProcessCountsAsGone) {
  auto roster = Roster::create(2);
  roster.join(0);
  const Peer peer(roster, [] { ::_exit(0); });
  ASSERT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::alive; }));
  std::this_thread::sleep_for(milliseconds(100)); // a zombie by now
  const Monitor monitor(roster, 0, 10);
  EXPECT_TRUE(
      becomes_true([&] { return roster.state(1) == MemberState::lost; }));
}

TEST(Monitor, WhoWasStoppedItselfBlamesNobody) {
  // This rank is stopped for longer than the timeout, together with the other
  // one, as by Ctrl-Z; both go on, and neither is lost.
  auto roster = Roster::create(2);
  const pid_t watcher = ::fork();
  if (watcher == 0) {
    roster.join(0);
    const Monitor monitor(roster, 0, 1.0);
    sleep_long();
  }
  const Peer peer(roster, sleep_long);
  ASSERT_TRUE(becomes_true(
      [&] { return roster.heartbeat(0) > 3 && roster.heartbeat(1) > 3; }));
  ::kill(watcher, SIGSTOP);
  ::kill(peer.pid(), SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2500));
  ::kill(watcher, SIGCONT);
  std::this_thread::sleep_for(milliseconds(300));
  ::kill(peer.pid(), SIGCONT);
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_EQ(roster.state(0), MemberState::alive);
  EXPECT_EQ(roster.state(1), MemberState::alive);
  ::kill(watcher, SIGKILL);
  ::waitpid(watcher, nullptr, 0);
}

} // namespace
} // namespace zero::comm
