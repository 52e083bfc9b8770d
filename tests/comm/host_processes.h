// Defines HostProcesses: ranks of several hosts, as processes of this machine
// that a test may kill. Each host has memory of its own; what goes between them
// goes over sockets.
//
//   HostProcesses ranks({0, 0, 1, 1}, [](World world) { ... });
//   EXPECT_EQ(ranks.wait(0), 0);
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/world.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/net/outside.h"
#include "comm/shm/segment.h"
#include "comm/socket_link.h"
#include "comm/world_state.h"

namespace zero::test {

class HostProcesses {
 public:
  HostProcesses(
      const std::vector<int>& host_of,
      const std::function<void(World)>& body,
      const comm::CommSettings& settings = {})
      : hosts_(host_of), pairs_(hosts_.num_ranks()) {
    std::vector<int> ids;
    for (int id = 0; id < hosts_.num_ranks(); ++id) {
      ids.push_back(id);
    }
    for (int host = 0; host < hosts_.num_hosts(); ++host) {
      rosters_.push_back(comm::Roster::create(hosts_.num_ranks()));
      segments_.push_back(comm::Segment::create(ids, comm::kWorldNumber));
    }
    for (const int id : ids) {
      std::fflush(nullptr); // else the child writes it once more
      const pid_t pid = ::fork();
      if (pid == 0) {
        run_child(id, body, settings);
      }
      pids_.push_back(pid);
    }
    pairs_.keep_only(-1);
  }
  ~HostProcesses() {
    for (int id = 0; id < hosts_.num_ranks(); ++id) {
      wait(id);
    }
  }
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  pid_t pid(int id) const {
    return pids_[static_cast<size_t>(id)];
  }

  // The status as waitpid gives it; 0 when it was waited for before.
  int wait(int id) {
    int status = 0;
    const pid_t pid = std::exchange(pids_[static_cast<size_t>(id)], 0);
    if (pid > 0) {
      ::waitpid(pid, &status, 0);
    }
    return status;
  }

 private:
  [[noreturn]] void run_child(
      int id,
      const std::function<void(World)>& body,
      const comm::CommSettings& settings) {
    int status = 0;
    try {
      pairs_.keep_only(id);
      const auto host = static_cast<size_t>(hosts_.host_of(id));
      const auto& roster = rosters_[host];
      auto outside = std::make_shared<comm::Outside>(
          std::make_unique<SocketLink>(pairs_, id),
          hosts_,
          roster,
          roster.memory());
      body(World(
          comm::join_world(roster, id, settings, outside, segments_[host])));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", id, error.what());
      status = 2;
    }
    if (::testing::Test::HasFailure()) {
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status); // the test program's own end is not ours
  }

  comm::Hosts hosts_;
  SocketPairs pairs_;
  std::vector<comm::Roster> rosters_;
  std::vector<std::shared_ptr<base::SharedMapping>> segments_;
  std::vector<pid_t> pids_;
};

} // namespace zero::test
