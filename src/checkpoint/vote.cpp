#include "checkpoint/vote.h"

#include <cstring>
#include <vector>

#include "base/error.h"

namespace zero::checkpoint {

namespace {

std::vector<int64_t> exchange_words(
    comm::Group& group,
    const std::vector<int64_t>& own) {
  return group.exchange(CommOp::all_gather, own);
}

} // namespace

std::string text_of(comm::Group& group, const std::string& text, int rank) {
  const auto sizes = exchange_words(group, {static_cast<int64_t>(text.size())});
  const auto bytes = static_cast<size_t>(sizes[static_cast<size_t>(rank)]);
  std::vector<int64_t> words(bytes / sizeof(int64_t) + 1);
  if (group.rank() == rank) {
    std::memcpy(words.data(), text.data(), bytes);
  }
  const auto all = exchange_words(group, words);
  const auto* begin = all.data() + static_cast<size_t>(rank) * words.size();
  return {reinterpret_cast<const char*>(begin), bytes};
}

Attempt attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const CommError&) {
    throw;
  } catch (const CorruptionError& error) {
    return {std::current_exception(), error.what(), Outcome::corrupt};
  } catch (const std::exception& error) {
    return {std::current_exception(), base::message_of(error), Outcome::failed};
  }
  return {};
}

Vote vote(comm::Group& group, const Attempt& own) {
  const auto all = exchange_words(group, {static_cast<int64_t>(own.outcome)});
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
    comm::Group& group,
    const Attempt& own,
    const Vote& vote,
    const std::string& what) {
  const std::string theirs = text_of(group, own.message, vote.rank);
  if (own.error) {
    std::rethrow_exception(own.error);
  }
  const std::string message =
      c10::str("rank ", vote.rank, " could not ", what, ": ", theirs);
  if (vote.worst == Outcome::corrupt) {
    throw CorruptionError(message);
  }
  throw IoError(message);
}

void require_all(
    comm::Group& group,
    const Attempt& own,
    const std::string& what) {
  const Vote all = vote(group, own);
  if (all.worst != Outcome::done) {
    throw_failure(group, own, all, what);
  }
}

} // namespace zero::checkpoint
