#include "comm/shm/progress.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "comm/shm/patience.h"

namespace zero::comm {

using base::Clock;

namespace {

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool is_message(const Operation& operation) {
  const auto op = operation.signature().op;
  return op == CommOp::send || op == CommOp::recv;
}

} // namespace

Progress::Progress(const Segment& segment, Options options)
    : segment_(segment),
      options_(std::move(options)),
      complaints_(segment_, options_) {}

Progress::~Progress() {
  {
    const Lock lock(mutex_);
    stop_ = true;
    wanted_.notify_one();
  }
  segment_.state(options_.rank).doorbell.ring();
  if (thread_.joinable()) {
    thread_.join();
  }
  // Handles may keep them for longer than what they use is there.
  for (const auto& operation : submitted_) {
    operation->give_up();
  }
  for_each_queue([](Queue& queue) {
    for (const auto& operation : queue) {
      operation->give_up();
    }
  });
}

void Progress::submit(const Ptr& operation) {
  Lock lock(mutex_);
  const auto& signature = operation->signature();
  operation->sequence = is_message(*operation)
      ? next_message_[{signature.op, signature.root}]++
      : next_sequence_++;
  submitted_.push_back(operation);
  has_submitted_ = true;
  if (driving_) {
    segment_.state(options_.rank).doorbell.ring(); // the driver may be asleep
    return;
  }
  driving_ = true;
  lock.unlock();
  take_submitted();
  advance_heads();
  if (options_.help) {
    options_.help(); // it is sent at once
  }
  lock.lock();
  hand_over();
}

// Gives up driving to whoever needs it.
void Progress::hand_over() {
  driving_ = false;
  if (num_waiting_ > 0) {
    changed_.notify_all();
  } else if (own_thread_needed()) {
    start_own_thread();
    wanted_.notify_one();
  }
}

void Progress::start_own_thread() {
  if (thread_.joinable() || thread_refused_) {
    return;
  }
  try {
    thread_ = std::thread([this] { run_own_thread(); });
  } catch (const std::system_error& error) {
    thread_refused_ = true;
    base::log_warning(
        options_.rank,
        segment_.size(),
        c10::str(
            "no thread for communication: ",
            error.what(),
            "; operations go on only while somebody waits for them. Fix: raise "
            "the limit of processes (ulimit -u)"));
  }
}

void Progress::wait(const Ptr& operation) {
  if (!operation->done) {
    Lock lock(mutex_);
    ++num_waiting_;
    segment_.state(options_.rank).doorbell.ring(); // our own thread lets go
    while (!operation->done) {
      if (driving_) {
        changed_.wait(lock);
      } else {
        drive_as(lock, operation.get(), Driver::caller);
      }
    }
    --num_waiting_;
    if (!driving_) {
      hand_over();
    }
  }
  if (operation->error) {
    std::rethrow_exception(operation->error);
  }
}

bool Progress::poll(const Ptr& operation) {
  Lock lock(mutex_);
  if (!operation->done && !driving_) {
    driving_ = true;
    lock.unlock();
    take_submitted();
    if (options_.help) {
      options_.help();
    }
    if (!advance_heads()) {
      fail_what_cannot_be();
    }
    lock.lock();
    hand_over();
  }
  return operation->done;
}

void Progress::abandon(const std::string& reason) {
  Lock lock(mutex_);
  abandoned_ = reason;
  has_submitted_ = true;
  ++num_waiting_;
  segment_.state(options_.rank).doorbell.ring();
  while (driving_) {
    changed_.wait(lock);
  }
  driving_ = true;
  lock.unlock();
  take_submitted();
  lock.lock();
  --num_waiting_;
  hand_over();
}

void Progress::drive_as(Lock& lock, const Operation* until, Driver who) {
  driving_ = true;
  lock.unlock();
  drive(until, who);
  lock.lock();
  driving_ = false;
  if (num_waiting_ > 0) {
    changed_.notify_all();
  }
}

bool Progress::own_thread_needed() const {
  bool needed = false;
  const auto look = [&needed](const Queue& queue) {
    for (const auto& operation : queue) {
      needed = needed || operation->owes();
    }
  };
  look(collectives_);
  for (const auto& [channel, queue] : messages_) {
    look(queue);
  }
  return needed || has_submitted_;
}

void Progress::run_own_thread() {
  Lock lock(mutex_);
  const auto is_needed = [this] {
    return !driving_ && num_waiting_ == 0 && own_thread_needed();
  };
  while (!stop_) {
    // Who calls a large operation mostly waits for it at once, and between
    // hosts it takes some handshakes: this thread would only be in the way.
    if (options_.help && is_needed()) {
      wanted_.wait_for(lock, kHelp, [this] { return stop_.load(); });
    }
    if (!stop_ && is_needed()) {
      drive_as(lock, nullptr, Driver::own_thread);
    } else {
      wanted_.wait(lock);
    }
  }
}

void Progress::drive(const Operation* until, Driver who) {
  const auto finished = [&] {
    return who == Driver::caller
        ? until->done.load()
        : stop_ || num_waiting_ > 0 || !own_thread_needed();
  };
  int idle_rounds = 0;
  for (;;) {
    if (has_submitted_) {
      take_submitted();
    }
    const bool moved = advance_heads();
    if (finished()) {
      return;
    }
    if (moved) {
      idle_rounds = 0;
    } else {
      idle(idle_rounds, who);
    }
  }
}

void Progress::take_submitted() {
  Queue submitted;
  std::string abandoned;
  {
    const Lock lock(mutex_);
    has_submitted_ = false;
    submitted.swap(submitted_);
    abandoned = abandoned_;
  }
  for (auto& operation : submitted) {
    const auto& signature = operation->signature();
    auto& queue = is_message(*operation)
        ? messages_[{signature.op, signature.root}]
        : collectives_;
    queue.push_back(std::move(operation));
  }
  if (!abandoned.empty()) {
    const Failure failure = [abandoned](const Operation&) {
      return std::make_exception_ptr(CommError(abandoned));
    };
    broken_ = broken_ ? broken_ : failure;
    for (auto& [channel, queue] : messages_) {
      fail_all(queue, failure);
    }
  }
  if (broken_) {
    fail_all(collectives_, broken_);
  }
}

template <class Visitor>
void Progress::for_each_queue(Visitor visit) {
  visit(collectives_);
  for (auto& [channel, queue] : messages_) {
    visit(queue);
  }
}

bool Progress::advance_heads() {
  bool moved = false;
  for_each_queue([&](Queue& queue) { moved = advance_head(queue) || moved; });
  return moved;
}

bool Progress::advance_head(Queue& queue) {
  if (queue.empty()) {
    return false;
  }
  auto& operation = *queue.front();
  auto& position = segment_.state(options_.rank).position;
  if (operation.moves == 0) {
    position.store(
        Position{operation.sequence, operation.signature().op, true}.pack(),
        std::memory_order_relaxed);
  }
  try {
    const bool moved = operation.advance();
    operation.moves += moved || operation.moves == 0 ? 1 : 0;
    if (!operation.complete()) {
      return moved;
    }
    position.store(
        Position{operation.sequence, operation.signature().op, false}.pack(),
        std::memory_order_relaxed);
    options_.on_complete(operation);
    finish(queue, nullptr);
  } catch (...) {
    fail(queue, [error = std::current_exception()](const Operation&) {
      return error;
    });
  }
  return true;
}

void Progress::finish(Queue& queue, std::exception_ptr error) {
  const Ptr operation = queue.front();
  queue.pop_front();
  if (error) {
    operation->give_up();
  }
  operation->error = std::move(error);
  operation->done = true;
  if (num_waiting_ > 0) {
    // Under the lock, so that nobody can be between looking and sleeping.
    const Lock lock(mutex_);
    changed_.notify_all();
  }
}

void Progress::fail_all(Queue& queue, const Failure& failure) {
  while (!queue.empty()) {
    finish(queue, failure(*queue.front()));
  }
}

// A message concerns its own channel; a collective that failed, all to come.
void Progress::fail(Queue& queue, Failure failure) {
  fail_all(queue, failure);
  if (&queue == &collectives_) {
    broken_ = std::move(failure);
  }
}

void Progress::idle(int& idle_rounds, Driver who) {
  // Our own thread would take the core from those who compute.
  if (who == Driver::caller && options_.help) {
    if (help_a_while(idle_rounds)) {
      return;
    }
  } else if (who == Driver::caller) {
    const int spins = options_.may_spin ? kSpins : 0;
    const int yields = options_.may_spin ? kYields : kCrowdedYields;
    if (idle_rounds < spins + yields) {
      if (++idle_rounds <= spins) {
        pause_briefly();
      } else {
        ::sched_yield();
      }
      return;
    }
  }
  fail_what_cannot_be();
  const auto has_news = [&] {
    return advance_heads() || has_submitted_ || stop_ ||
        (who == Driver::own_thread && num_waiting_ > 0);
  };
  segment_.state(options_.rank).doorbell.wait_for_news(has_news, sleep_limit());
}

// False when it has been long enough. Between hosts: Note [Helping].
bool Progress::help_a_while(int& idle_rounds) {
  const auto now = Clock::now();
  if (idle_rounds++ == 0) {
    idle_since_ = now;
  }
  if (now - idle_since_ > (options_.may_spin ? kHelp : kCrowdedHelp)) {
    return false;
  }
  if (options_.help()) {
    idle_since_ = Clock::now(); // more may come at once
  } else if (options_.may_spin) {
    pause_briefly();
  } else {
    ::sched_yield();
  }
  return true;
}

std::chrono::nanoseconds Progress::sleep_limit() {
  std::chrono::nanoseconds limit = kSleep;
  for_each_queue([&limit](const Queue& queue) {
    if (!queue.empty() && queue.front()->is_silent()) {
      limit = kLook;
    }
  });
  return limit;
}

void Progress::fail_what_cannot_be() {
  // In this order: what a rank did before it was lost still counts.
  const int deserter = options_.deserter();
  const auto lost = options_.lost_ranks();
  if (advance_heads()) {
    return;
  }
  for_each_queue([&](Queue& queue) {
    if (queue.empty()) {
      return;
    }
    // A collective needs everybody; a message its peer, unless the survivors
    // are leaving: then nobody can be relied on.
    const bool message = &queue != &collectives_;
    const int peer = queue.front()->signature().root;
    const bool peer_lost_too =
        std::find(lost.begin(), lost.end(), peer) != lost.end();
    if (may_still_complete(*queue.front(), lost, deserter)) {
      return;
    }
    if (message && peer_lost_too) {
      fail(queue, [this, peer](const Operation& operation) {
        return complaints_.peer_lost(operation, peer);
      });
    } else if (!lost.empty() && (!message || deserter >= 0)) {
      fail(queue, [this, rank = lost.front()](const Operation& operation) {
        return complaints_.peer_lost(operation, rank);
      });
    } else if (deserter >= 0) {
      fail(queue, [this, deserter](const Operation& operation) {
        return complaints_.deserted(operation, deserter);
      });
    } else {
      fail_if_late(queue);
    }
  });
}

// Whether what is missing may be on its way, over several hosts: what a rank
// did comes by other ways than that it is gone. Of a rank that left or gave up
// in order that may be anything; where one was lost, it is what others have
// done.
bool Progress::may_still_complete(
    Operation& operation,
    const std::vector<int>& lost,
    int deserter) {
  if (lost.empty() && deserter < 0) {
    return false;
  }
  // Since it has last moved: what is large takes longer than news.
  if (!operation.lost_since || operation.moves != operation.moves_at_loss) {
    operation.lost_since = Clock::now();
    operation.moves_at_loss = operation.moves;
  }
  if (base::seconds_since(*operation.lost_since) >= options_.news_seconds) {
    return false;
  }
  if (std::ranges::all_of(lost, options_.left_in_order)) {
    return true;
  }
  const auto awaited = operation.awaited();
  return !is_message(operation) && deserter < 0 &&
      std::ranges::none_of(awaited, [&lost](int rank) {
        return std::ranges::find(lost, rank) != lost.end();
      });
}

void Progress::fail_if_late(Queue& queue) {
  auto& operation = *queue.front();
  const auto now = Clock::now();
  if (operation.moves != operation.moves_seen) {
    operation.moves_seen = operation.moves;
    operation.stuck_since = now;
    operation.warned = now;
    return;
  }
  const double stuck = base::Seconds(now - operation.stuck_since).count();
  if (stuck >= options_.progress_timeout_seconds) {
    fail(queue, [this](const Operation& late) {
      return complaints_.timed_out(late);
    });
  } else if (base::Seconds(now - operation.warned).count() >= kWarningSeconds) {
    operation.warned = now;
    complaints_.warn_late(operation, stuck);
  }
}

} // namespace zero::comm
