#include <zero/local.h>

#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "comm/environment.h"
#include "comm/world_state.h"

namespace zero {

void run_threads(
    int num_ranks,
    const std::function<void(World)>& body,
    const InitOptions& options) {
  const auto settings = comm::read_settings(
      options, [](const char* name) { return std::getenv(name); });
  const auto roster = comm::Roster::create(num_ranks);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int id = 0; id < num_ranks; ++id) {
    threads.emplace_back([&, id] {
      try {
        body(World(comm::join_world(roster, id, settings)));
      } catch (...) {
        errors[static_cast<size_t>(id)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  // The rank that failed first made others fail; its own error says more.
  std::exception_ptr victim;
  for (int id = 0; id < num_ranks; ++id) {
    const auto& error = errors[static_cast<size_t>(id)];
    if (error && !roster.is_victim(id)) {
      std::rethrow_exception(error);
    }
    victim = victim ? victim : error;
  }
  if (victim) {
    std::rethrow_exception(victim);
  }
}

} // namespace zero
