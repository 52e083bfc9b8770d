// Defines run_hosts(): ranks of several hosts, as threads of this process. Each
// host has memory of its own; what goes between them goes over a Switchboard.
//
//   run_hosts({0, 0, 1, 1}, [](Communicator comm) { ... });
#pragma once

#include <zero/communicator.h>
#include <zero/world.h>

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/net/outside.h"
#include "comm/shm/group.h"
#include "comm/thread_link.h"
#include "comm/world_state.h"

namespace zero::test {

struct HostRank {
  std::shared_ptr<comm::Group> group;
  Switchboard& board;
  World world;
};

inline void run_hosts(
    const std::vector<int>& host_of,
    const std::function<void(HostRank)>& body,
    const comm::CommSettings& settings = {}) {
  const comm::Hosts hosts(host_of);
  const int size = hosts.num_ranks();
  std::vector<int> ids;
  for (int id = 0; id < size; ++id) {
    ids.push_back(id);
  }
  std::vector<comm::Roster> rosters;
  std::vector<std::shared_ptr<base::SharedMapping>> segments;
  for (int host = 0; host < hosts.num_hosts(); ++host) {
    rosters.push_back(comm::Roster::create(size));
    segments.push_back(comm::Segment::create(ids, comm::kWorldNumber));
  }
  Switchboard board(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int id = 0; id < size; ++id) {
    threads.emplace_back([&, id] {
      const auto host = static_cast<size_t>(hosts.host_of(id));
      try {
        const auto& roster = rosters[host];
        auto outside = std::make_shared<comm::Outside>(
            board.link(id), hosts, roster, roster.memory());
        const auto state =
            comm::join_world(roster, id, settings, outside, segments[host]);
        body({state->group, board, World(state)});
      } catch (...) {
        errors[static_cast<size_t>(id)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
}

} // namespace zero::test
