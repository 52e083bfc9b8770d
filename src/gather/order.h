// Defines OrderOfUse: remembers in which order a step needs its units, and says
// when each will be needed next. Used by Gatherer to fetch ahead of need and to
// drop what is needed last.
//
// A step that goes another way than the one before is followed as well as it
// can be: the prediction may be wrong, what is gathered never is.
//
// Not thread-safe; the owner locks.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace zero::gather {

class OrderOfUse {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit OrderOfUse(int num_units);

  // A unit is used now.
  void use(int unit);

  // The step is over: its order is what the next one is expected to have. False
  // if it had no uses.
  bool end_step();

  // How far it is in the order that is expected.
  int64_t position() const {
    return position_;
  }

  // How many uses from now, or from a position, the unit is expected; kNever if
  // it is not.
  int64_t uses_until(int unit) const {
    return uses_until(unit, position_);
  }
  int64_t uses_until(int unit, int64_t position) const;

  // The unit expected `ahead` uses from now, -1 beyond the end of the step.
  int expected(int64_t ahead) const;

  // Uses that were not the expected ones, since it was made.
  int64_t num_surprises() const {
    return num_surprises_;
  }

 private:
  void follow(int unit);

  std::vector<int> recorded_; // of this step
  std::vector<int> order_; // of the last one
  std::vector<std::vector<int64_t>> places_; // of each unit in order_
  int64_t position_ = 0; // in order_: what comes next
  int64_t num_surprises_ = 0;
};

} // namespace zero::gather
