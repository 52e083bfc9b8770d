// Defines Prefetcher: makes the next batches in a thread of its own while the
// last one is trained on.
//
//   Prefetcher<Batch> batches([&] { return make_batch(); }, /*depth=*/4);
//   Batch batch = batches.next();
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace zero::data {

template <class Batch>
class Prefetcher {
 public:
  // `make` is called by one thread, in order. What it throws comes out of
  // next() in its turn, and is the end.
  Prefetcher(std::function<Batch()> make, size_t depth)
      : make_(std::move(make)), depth_(depth), thread_([this] { run(); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  Batch next() {
    std::unique_lock lock(mutex_);
    num_waits_ += ready_.empty() ? 1 : 0;
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) {
      std::rethrow_exception(failure_);
    }
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }

  // How often next() found nothing ready.
  int64_t num_waits() const {
    const std::lock_guard lock(mutex_);
    return num_waits_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_ && !failure_) {
      if (ready_.size() >= depth_) {
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      std::exception_ptr failure;
      std::optional<Batch> made;
      try {
        made = make_();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      if (!failure_) {
        ready_.push_back(std::move(*made));
      }
      changed_.notify_all();
    }
  }

  std::function<Batch()> make_;
  size_t depth_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  int64_t num_waits_ = 0;
  bool stop_ = false;
  std::thread thread_; // last: it uses all of the above
};

} // namespace zero::data
