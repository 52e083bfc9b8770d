#include "config/nearest.h"

#include <algorithm>

#include "config/wording.h"

namespace zero::config {

namespace {

constexpr size_t kMaxLength = 64; // no key is longer, and the work is quadratic

std::string folded(std::string_view word) {
  std::string result = lower_case(word);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

} // namespace

size_t spelling_distance(std::string_view a, std::string_view b) {
  const std::string from = folded(a);
  const std::string to = folded(b);
  // Rows of the table of distances between prefixes: the last two and this one.
  std::vector<size_t> two_before(to.size() + 1);
  std::vector<size_t> before(to.size() + 1);
  std::vector<size_t> now(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) {
    before[j] = j;
  }
  for (size_t i = 1; i <= from.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced =
          before[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      now[j] = std::min({before[j] + 1, now[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] &&
          from[i - 2] == to[j - 1];
      if (swapped) {
        now[j] = std::min(now[j], two_before[j - 2] + 1);
      }
    }
    two_before.swap(before);
    before.swap(now);
  }
  return before[to.size()];
}

std::optional<std::string> nearest(
    std::string_view word,
    const std::vector<std::string>& known) {
  if (word.size() > kMaxLength) {
    return std::nullopt;
  }
  // A third of the letters wrong is still a typing mistake; more is another
  // word, and a wrong guess is worse than none.
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> result;
  for (const std::string& candidate : known) {
    const size_t distance = spelling_distance(word, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      result = candidate;
    }
  }
  return result;
}

} // namespace zero::config
