#include "observe/operator_observer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/SmallVector.h>

#include <bit>

namespace zero::observe {

// Open addressing, at most half full; never changed once it is made.
class OperatorObserver::Table {
 public:
  explicit Table(const std::vector<Entry>& entries)
      : places_(std::bit_ceil(2 * entries.size() + 2)) {
    for (const auto& entry : entries) {
      size_t place = hash(entry.storage);
      while (places_[place].storage != nullptr) {
        place = (place + 1) & (places_.size() - 1);
      }
      places_[place] = entry;
    }
  }

  const Entry* find(const c10::StorageImpl* storage) const {
    size_t place = hash(storage);
    while (places_[place].storage != nullptr) {
      if (places_[place].storage == storage) {
        return &places_[place];
      }
      place = (place + 1) & (places_.size() - 1);
    }
    return nullptr;
  }

 private:
  size_t hash(const c10::StorageImpl* storage) const {
    // The low bits of addresses are all alike.
    const auto bits = reinterpret_cast<uintptr_t>(storage) >> 4;
    return (bits * 0x9E3779B97F4A7C15ULL >> 20) & (places_.size() - 1);
  }

  std::vector<Entry> places_;
};

namespace {

// What an operator uses, from its start to its end.
struct Uses : at::ObserverContext {
  explicit Uses(c10::SmallVector<const OperatorObserver::Entry*, 4> found)
      : entries(std::move(found)) {}
  c10::SmallVector<const OperatorObserver::Entry*, 4> entries;
};

using Found = c10::SmallVector<const OperatorObserver::Entry*, 4>;

void look_into(const at::Tensor& tensor, Found& found) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  const auto* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (const auto* entry = OperatorObserver::instance().find(storage)) {
    found.push_back(entry);
  }
}

// Also lists of tensors, and lists of tensors that may be missing.
void look_into(const c10::IValue& value, Found& found) {
  if (value.isTensor()) {
    look_into(value.toTensor(), found);
  } else if (value.isTensorList()) {
    for (const auto& tensor : value.toTensorVector()) {
      look_into(tensor, found);
    }
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) {
      if (element.isTensor()) {
        look_into(element.toTensor(), found);
      }
    }
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  Found found;
  for (const auto& input : call.inputs()) {
    look_into(input, found);
  }
  if (found.empty()) {
    return nullptr;
  }
  for (const auto* entry : found) {
    entry->listener->before_use(entry->unit);
  }
  return std::make_unique<Uses>(std::move(found));
}

void on_end(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  for (const auto* entry : static_cast<Uses*>(context)->entries) {
    entry->listener->after_use(entry->unit);
  }
}

} // namespace

OperatorObserver& OperatorObserver::instance() {
  // Never destroyed: operators may run while the program ends.
  static auto* observer = new OperatorObserver;
  return *observer;
}

OperatorObserver::~OperatorObserver() = default;

void OperatorObserver::watch(
    const std::vector<const c10::StorageImpl*>& storages,
    OperatorListener* listener) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < storages.size(); ++i) {
    entries_.push_back({storages[i], listener, static_cast<int>(i)});
  }
  rebuild();
}

void OperatorObserver::unwatch(const OperatorListener* listener) {
  const std::lock_guard lock(mutex_);
  std::erase_if(
      entries_, [&](const Entry& entry) { return entry.listener == listener; });
  rebuild();
}

void OperatorObserver::rebuild() {
  tables_.push_back(std::make_unique<const Table>(entries_));
  table_ = tables_.back().get();
  if (!entries_.empty() && callback_ == 0) {
    callback_ =
        at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                  .needsInputs(true)
                                  .scopes({at::RecordScope::FUNCTION}));
  } else if (entries_.empty() && callback_ != 0) {
    at::removeCallback(callback_);
    callback_ = 0;
  }
}

const OperatorObserver::Entry* OperatorObserver::find(
    const c10::StorageImpl* storage) const {
  const Table* table = table_.load(std::memory_order_acquire);
  return table == nullptr ? nullptr : table->find(storage);
}

} // namespace zero::observe
