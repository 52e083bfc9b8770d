#include "comm/net/torchrun_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "comm/shm/patience.h"

namespace zero::comm {

namespace {

using StoredBytes = std::vector<uint8_t>;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(
      static_cast<int64_t>(std::min(seconds, 1e9) * 1e3));
}

class StoreMeeting {
 public:
  StoreMeeting(
      c10::intrusive_ptr<c10d::Store> store,
      std::string meeting,
      int rank,
      int size,
      double limit_seconds)
      : store_(std::move(store)),
        meeting_(std::move(meeting)),
        rank_(rank),
        size_(size),
        limit_seconds_(limit_seconds) {}

  std::vector<std::string> all_gather(const std::string& own) {
    try {
      const auto keys = begin_round();
      store_->set(
          keys[static_cast<size_t>(rank_)],
          StoredBytes(own.begin(), own.end()));
      wait_for(keys);
      std::vector<std::string> all;
      for (const StoredBytes& bytes : store_->multiGet(keys)) {
        all.emplace_back(bytes.begin(), bytes.end());
      }
      return all;
    } catch (const c10::Error& error) {
      throw CommError(c10::str(
          "torchrun's store, by which the ranks meet, is gone: ",
          base::message_of(error),
          ". Fix: see what has ended torchrun on the first host"));
    }
  }

 private:
  // Where each rank says what it has to say in this round.
  std::vector<std::string> begin_round() {
    if (round_ == 0) {
      // torchrun starts ranks again under the same number where hosts come or
      // go, and its store still has what those before have left: the how
      // manieth time a rank comes is a part of the name.
      const int64_t time = store_->add(c10::str(meeting_, "/times/", rank_), 1);
      meeting_ = c10::str(meeting_, "/", time);
    }
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) {
      keys.push_back(c10::str(meeting_, "/", round_, "/", rank));
    }
    ++round_;
    return keys;
  }

  void wait_for(const std::vector<std::string>& keys) {
    const auto start = base::Clock::now();
    for (;;) {
      const double left = limit_seconds_ - base::seconds_since(start);
      try {
        store_->wait(
            keys, milliseconds(std::clamp(left, 0.001, kWarningSeconds)));
        return;
      } catch (const c10::DistStoreError&) { // not all of them yet
      }
      complain(keys, base::seconds_since(start));
    }
  }

  void complain(const std::vector<std::string>& keys, double waited) {
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!store_->check({keys[static_cast<size_t>(rank)]})) {
        missing.push_back(rank);
      }
    }
    if (missing.empty()) {
      return; // they have come meanwhile
    }
    const std::string who = c10::str("ranks ", c10::Join(", ", missing));
    if (waited < limit_seconds_) {
      base::log_warning(
          rank_,
          size_,
          c10::str(
              "waiting for ",
              who,
              " at torchrun's store since ",
              static_cast<int>(waited),
              " s"));
      return;
    }
    throw CommTimeout(
        c10::str(
            who,
            " did not come to torchrun's store within ",
            limit_seconds_,
            " s. Fix: have every rank that torchrun starts call zero::init()"),
        {missing.front(), "init", -1});
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::string meeting_;
  int rank_;
  int size_;
  double limit_seconds_;
  int round_ = 0;
};

c10::intrusive_ptr<c10d::Store> connect_to_store(
    const std::string& host,
    uint16_t port,
    double limit_seconds) {
  // torchrun's agent has reached it before it started this rank.
  constexpr double kPatienceSeconds = 60;
  const double seconds = std::min(limit_seconds, kPatienceSeconds);
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = milliseconds(seconds);
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const c10::Error& error) {
    throw CommError(c10::str(
        "init: on host ",
        base::host_name(),
        ", torchrun's store at ",
        host,
        ":",
        port,
        " (MASTER_ADDR, MASTER_PORT) does not answer within ",
        seconds,
        " s: ",
        base::message_of(error),
        ". Fix: give torchrun an address of the first host that all hosts "
        "reach, and a port that no firewall closes"));
  }
}

} // namespace

GatherBytes gather_at_torchrun(
    const Environment& environment,
    double limit_seconds) {
  return gather_at(
      connect_to_store(
          environment.store_host, environment.store_port, limit_seconds),
      environment.meeting,
      environment.rank,
      environment.size,
      limit_seconds);
}

GatherBytes gather_at(
    c10::intrusive_ptr<c10d::Store> store,
    const std::string& meeting,
    int rank,
    int size,
    double limit_seconds) {
  // Shared, because a std::function can be copied.
  auto place = std::make_shared<StoreMeeting>(
      std::move(store), meeting, rank, size, limit_seconds);
  return [place](const std::string& own) { return place->all_gather(own); };
}

} // namespace zero::comm
