// Defines OperatorObserver: tells before and after each operator which watched
// storages it reads or writes, in forward and in backward. One of the two
// places that hook libtorch; the only process-wide object, since libtorch has
// one list of callbacks. It is registered only while somebody watches
// something.
//
//   OperatorObserver::instance().watch(storages, listener);
//
// Thread-safe. Listeners are called in whichever thread runs the operator, and
// must not throw: libtorch would swallow it and run the operator anyway.
#pragma once

#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace zero::observe {

class OperatorListener {
 public:
  virtual ~OperatorListener() = default;
  // Calls come in pairs, and nest: an operator may call others.
  virtual void before_use(int unit) noexcept = 0;
  virtual void after_use(int unit) noexcept = 0;
};

class OperatorObserver {
 public:
  static OperatorObserver& instance();

  // The listener knows storages[i] as unit i. They stay until unwatched.
  void watch(
      const std::vector<const c10::StorageImpl*>& storages,
      OperatorListener* listener);
  // Requires: no operator is running on what it watched.
  void unwatch(const OperatorListener* listener);

  struct Entry {
    const c10::StorageImpl* storage = nullptr;
    OperatorListener* listener = nullptr;
    int unit = 0;
  };
  // nullptr if nobody watches it.
  const Entry* find(const c10::StorageImpl* storage) const;

 private:
  class Table;

  OperatorObserver() = default;
  ~OperatorObserver();
  void rebuild();

  std::mutex mutex_; // for those who watch; find() needs none
  std::vector<Entry> entries_;
  std::atomic<const Table*> table_ = nullptr;
  // A reader may still be in an old one, so none is freed before the end.
  std::vector<std::unique_ptr<const Table>> tables_;
  uint64_t callback_ = 0;
};

} // namespace zero::observe
