#include "checkpoint/vote.h"

#include <cstring>

#include "base/error.h"

namespace zero::checkpoint {

std::string text_of_rank_0(
    const engine::EngineState& state,
    const std::string& text) {
  const auto bytes = static_cast<size_t>(
      state.exchange({static_cast<int64_t>(text.size())}).front());
  std::vector<int64_t> words(bytes / sizeof(int64_t) + 1);
  if (state.rank() == 0) {
    std::memcpy(words.data(), text.data(), bytes);
  }
  const auto all = state.exchange(words);
  return {reinterpret_cast<const char*>(all.data()), bytes};
}

Attempt attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const CommError&) {
    throw;
  } catch (const CorruptionError& error) {
    return {std::current_exception(), error.what(), Outcome::corrupt};
  } catch (...) {
    return {std::current_exception(), "", Outcome::failed};
  }
  return {};
}

Vote vote(const engine::EngineState& state, const Attempt& own) {
  const auto all = state.exchange({static_cast<int64_t>(own.outcome)});
  Vote result;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto outcome = static_cast<Outcome>(all[rank]);
    if (outcome > result.worst) {
      result = {outcome, static_cast<int>(rank)};
    }
  }
  return result;
}

void throw_failure(
    const Attempt& own,
    const Vote& vote,
    const std::string& what) {
  if (own.error) {
    std::rethrow_exception(own.error);
  }
  const std::string message = c10::str(
      "rank ", vote.rank, " could not ", what, "; its own message says why");
  if (vote.worst == Outcome::corrupt) {
    throw CorruptionError(message);
  }
  throw IoError(message);
}

} // namespace zero::checkpoint
