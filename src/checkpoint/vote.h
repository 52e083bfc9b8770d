// Defines what ranks tell each other when they save and load together.
//
//   const auto own = attempt([&] { write_shard(...); });
//   require_all(group, own, "save");    // throws on every rank, or on none
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "comm/shm/group.h"

namespace zero::checkpoint {

// Collective: a rank's text, on every rank.
std::string text_of(comm::Group& group, const std::string& text, int rank = 0);

// How a rank's part went, the worst last.
enum class Outcome : int64_t { done, corrupt, failed };

// What a part ended with; CommErrors are thrown at once.
struct Attempt {
  std::exception_ptr error;
  std::string message;
  Outcome outcome = Outcome::done;
};
Attempt attempt(const std::function<void()>& part);

struct Vote {
  Outcome worst = Outcome::done;
  int rank = 0; // the first that says so
};

// Collective.
Vote vote(comm::Group& group, const Attempt& own);

// Collective: what a rank has failed with itself, or else what the first one
// that says the worst has. `what` is what they were about.
[[noreturn]] void throw_failure(
    comm::Group& group,
    const Attempt& own,
    const Vote& vote,
    const std::string& what);

// Collective: throws, on every rank, unless all have done their part.
void require_all(
    comm::Group& group,
    const Attempt& own,
    const std::string& what);

} // namespace zero::checkpoint
