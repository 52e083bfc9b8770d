#include "tasks/all_spans.h"

#include <algorithm>

#include "tasks/together.h"

namespace zero::tasks {

namespace {

// A span as numbers, which a double holds exactly.
constexpr size_t kNumbersOfASpan = 4;

std::vector<double> to_numbers(const std::vector<base::KeptSpan>& spans) {
  std::vector<double> numbers;
  for (const auto& span : spans) {
    numbers.push_back(static_cast<double>(span.activity));
    numbers.push_back(span.thread);
    numbers.push_back(static_cast<double>(span.begin));
    numbers.push_back(static_cast<double>(span.end));
  }
  return numbers;
}

} // namespace

std::vector<std::vector<base::KeptSpan>> spans_of_all_ranks(
    const World& world) {
  std::vector<double> own = to_numbers(base::kept_spans());
  const auto lengths = exchange_rows(world, {static_cast<double>(own.size())});
  double longest = 0;
  for (const auto& length : lengths) {
    longest = std::max(longest, length[0]);
  }
  own.resize(static_cast<size_t>(longest));
  const auto rows = exchange_rows(world, own);
  std::vector<std::vector<base::KeptSpan>> all(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const auto length = static_cast<size_t>(lengths[rank][0]);
    for (size_t i = 0; i < length; i += kNumbersOfASpan) {
      const double* value = rows[rank].data() + i;
      all[rank].push_back(
          {static_cast<base::Activity>(value[0]),
           static_cast<int>(value[1]),
           static_cast<int64_t>(value[2]),
           static_cast<int64_t>(value[3])});
    }
  }
  return all;
}

} // namespace zero::tasks
