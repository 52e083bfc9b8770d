// Defines how tests run ranks: as threads (`local`) or as processes (`shm`),
// with the same code.
//
//   run_ranks(Backend::shm, 4, [](World world) { ... EXPECT_EQ(...) ... });
//
// A process is forked, so what it changes stays its own; a failed expectation
// or an exception of any rank fails the test.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/zero.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "comm/environment.h"
#include "comm/world_state.h"

namespace zero::test {

enum class Backend { local, shm };

inline std::string name_of(Backend backend) {
  return backend == Backend::local ? "local" : "shm";
}

inline std::ostream& operator<<(std::ostream& stream, Backend backend) {
  return stream << name_of(backend);
}

using Body = std::function<void(World)>;

// Ranks as processes, which a test may kill. Waits for them in the destructor.
class Processes {
 public:
  // `num_newcomers` is how many add() may start.
  Processes(
      int num_ranks,
      const Body& body,
      const InitOptions& options = {},
      int num_newcomers = 0)
      : roster_(comm::Roster::create(num_ranks, num_newcomers)) {
    for (int id = 0; id < num_ranks; ++id) {
      start(id, body, options);
    }
  }
  ~Processes() {
    for (size_t id = 0; id < pids_.size(); ++id) {
      wait(static_cast<int>(id));
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int id) const {
    return pids_[static_cast<size_t>(id)];
  }
  comm::Roster& roster() {
    return roster_;
  }

  // One that joins those who train. Returns its id.
  int add(const Body& body, const InitOptions& options = {}) {
    const int id = roster_.add_newcomer().value();
    start(id, body, options);
    return id;
  }

  // The process, which the caller will wait for.
  pid_t release(int id) {
    return std::exchange(pids_[static_cast<size_t>(id)], 0);
  }

  // The status as waitpid gives it; 0 when it was waited for before.
  int wait(int id) {
    int status = 0;
    auto& pid = pids_[static_cast<size_t>(id)];
    if (pid > 0) {
      ::waitpid(pid, &status, 0);
      pid = 0;
    }
    return status;
  }

 private:
  void start(int id, const Body& body, const InitOptions& options) {
    std::fflush(nullptr); // else the child writes it once more
    const pid_t pid = ::fork();
    if (pid == 0) {
      run_child(id, body, options);
    }
    pids_.push_back(pid);
  }

  [[noreturn]] void run_child(
      int id,
      const Body& body,
      const InitOptions& options) {
    int status = 0;
    try {
      const auto settings = comm::read_settings(
          options, [](const char* name) { return std::getenv(name); });
      body(World(comm::join_world(roster_, id, settings)));
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

  comm::Roster roster_;
  std::vector<pid_t> pids_;
};

inline void run_ranks(
    Backend backend,
    int num_ranks,
    const Body& body,
    const InitOptions& options = {}) {
  if (backend == Backend::local) {
    run_threads(num_ranks, body, options);
    return;
  }
  Processes processes(num_ranks, body, options);
  for (int id = 0; id < num_ranks; ++id) {
    const int status = processes.wait(id);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << id << " ended with status " << status;
  }
}

} // namespace zero::test
