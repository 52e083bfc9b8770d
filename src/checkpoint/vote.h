// Defines what ranks tell each other when they save and load together.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "engine/engine_state.h"

namespace zero::checkpoint {

// Collective: rank 0's text, on every rank.
std::string text_of_rank_0(
    const engine::EngineState& state,
    const std::string& text);

// How a rank's part went, the worst last.
enum class Outcome : int64_t { done, corrupt, failed };

struct Vote {
  Outcome worst = Outcome::done;
  int rank = 0; // the first that says so
};

// What a part ended with; CommErrors are thrown at once.
struct Attempt {
  std::exception_ptr error;
  std::string message; // of one that is corrupt
  Outcome outcome = Outcome::done;
};
Attempt attempt(const std::function<void()>& part);

// Collective.
Vote vote(const engine::EngineState& state, const Attempt& own);

// Throws, on every rank: what it has failed with itself, or that another one
// did, at `what`.
[[noreturn]] void throw_failure(
    const Attempt& own,
    const Vote& vote,
    const std::string& what);

} // namespace zero::checkpoint
