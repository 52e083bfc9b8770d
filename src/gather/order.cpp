#include "gather/order.h"

#include <algorithm>

namespace zero::gather {

OrderOfUse::OrderOfUse(int num_units)
    : places_(static_cast<size_t>(num_units)) {}

void OrderOfUse::use(int unit) {
  if (!recorded_.empty() && recorded_.back() == unit) {
    return; // still the same use, by one more operator
  }
  recorded_.push_back(unit);
  if (!order_.empty()) {
    follow(unit);
  }
}

void OrderOfUse::follow(int unit) {
  if (expected(0) == unit) {
    ++position_;
    return;
  }
  ++num_surprises_;
  // Something was left out; or it is something new, and the rest comes later.
  const int64_t ahead = uses_until(unit);
  if (ahead != kNever) {
    position_ += ahead + 1;
  }
}

bool OrderOfUse::end_step() {
  const bool is_used = !recorded_.empty();
  if (is_used) {
    order_.swap(recorded_);
    for (auto& places : places_) {
      places.clear();
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      places_[static_cast<size_t>(order_[i])].push_back(
          static_cast<int64_t>(i));
    }
  }
  recorded_.clear();
  position_ = 0;
  return is_used;
}

int64_t OrderOfUse::uses_until(int unit, int64_t position) const {
  const auto& places = places_[static_cast<size_t>(unit)];
  const auto next = std::lower_bound(places.begin(), places.end(), position);
  return next == places.end() ? kNever : *next - position;
}

int OrderOfUse::expected(int64_t ahead) const {
  const int64_t place = position_ + ahead;
  return place < static_cast<int64_t>(order_.size())
      ? order_[static_cast<size_t>(place)]
      : -1;
}

} // namespace zero::gather
