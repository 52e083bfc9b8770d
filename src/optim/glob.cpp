#include "optim/glob.h"

#include <cstddef>

namespace zero::optim {

// What comes before a * is matched at the first place that it fits. If what
// follows does not fit, only the last * has to take more: had an earlier one
// taken more, the later one could have taken that too.
bool matches(std::string_view pattern, std::string_view name) {
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0;
  size_t star = kNone; // the last one
  size_t taken = 0; // where it ends, in the name
  for (size_t n = 0; n < name.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (
        p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != kNone) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

} // namespace zero::optim
