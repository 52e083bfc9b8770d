// Defines Switchboard: a link between threads, for tests of what runs on
// several hosts.
//
//   Switchboard board(4);
//   auto link = board.link(rank);
//   board.cut(2); // rank 2 is gone from now on
//   board.mute(1); // nothing comes from it or to it, and nobody is told
//   board.mute_after(1, 5); // the same in the middle of something large
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "comm/net/link.h"

namespace zero::test {

class Switchboard {
 public:
  explicit Switchboard(int size) : size_(size) {}

  std::unique_ptr<comm::Link> link(int rank) {
    return std::make_unique<ThreadLink>(*this, rank);
  }
  void cut(int rank) {
    const std::lock_guard lock(mutex_);
    cut_.insert(rank);
  }
  // The same, when so many large messages from it have come.
  void mute_after(int rank, int count) {
    const std::lock_guard lock(mutex_);
    mute_after_[rank] = count;
  }
  void unmute() {
    const std::lock_guard lock(mutex_);
    muted_.clear();
  }
  // What is cancelled does not end.
  void get_stuck() {
    const std::lock_guard lock(mutex_);
    stuck_ = true;
  }
  void mute(int rank) {
    const std::lock_guard lock(mutex_);
    muted_.insert(rank);
  }

 private:
  using Line = std::tuple<int, int, int>; // from, to, tag
  struct Message {
    const void* data;
    size_t bytes;
    bool* taken; // what the sender looks at
  };
  using State = comm::Transfer::State;

  void count_large(int from, size_t bytes) {
    constexpr size_t kLarge = size_t{32} << 10;
    const auto found = mute_after_.find(from);
    if (bytes > kLarge && found != mute_after_.end() && --found->second == 0) {
      muted_.insert(from);
    }
  }
  bool is_cut(const Line& line) const {
    return cut_.contains(std::get<0>(line)) || cut_.contains(std::get<1>(line));
  }

  // Done when it has been received, as a large one of MPI is: so a test sees
  // memory that changes too early.
  class Sending final : public comm::Transfer {
   public:
    Sending(Switchboard& board, Line line, const void* data, size_t bytes)
        : board_(board), line_(line), taken_(std::make_unique<bool>(false)) {
      const std::lock_guard lock(board_.mutex_);
      board_.lines_[line_].push_back({data, bytes, taken_.get()});
    }
    ~Sending() override {
      const std::lock_guard lock(board_.mutex_);
      if (!*taken_) {
        std::erase_if(board_.lines_[line_], [this](const Message& message) {
          return message.taken == taken_.get();
        });
      }
    }
    State state() override {
      const std::lock_guard lock(board_.mutex_);
      const bool is_late = board_.ended_.contains(std::get<1>(line_));
      return *taken_                        ? State::done
          : board_.is_cut(line_) || is_late ? State::failed
                                            : State::under_way;
    }
    size_t bytes() const override {
      return 0;
    }
    void cancel() override {}

   private:
    Switchboard& board_;
    Line line_;
    std::unique_ptr<bool> taken_;
  };

  class Receiving final : public comm::Transfer {
   public:
    Receiving(Switchboard& board, Line line, void* data)
        : board_(board), line_(line), data_(data) {
      const std::lock_guard lock(board_.mutex_);
      number_ = board_.num_receiving_[line_]++;
    }
    State state() override {
      const std::lock_guard lock(board_.mutex_);
      auto& messages = board_.lines_[line_];
      if (done_ || cancelled_) {
        return done_ ? State::done : State::failed;
      }
      if (board_.muted_.contains(std::get<0>(line_)) ||
          board_.muted_.contains(std::get<1>(line_))) {
        return State::under_way;
      }
      // In the order in which they were asked for.
      if (messages.empty() || board_.num_received_[line_] != number_) {
        return board_.is_cut(line_) ? State::failed : State::under_way;
      }
      const Message message = messages.front();
      messages.pop_front();
      std::memcpy(data_, message.data, message.bytes);
      board_.count_large(std::get<0>(line_), message.bytes);
      *message.taken = true;
      bytes_ = message.bytes;
      done_ = true;
      ++board_.num_received_[line_];
      return State::done;
    }
    size_t bytes() const override {
      return bytes_;
    }
    void cancel() override {
      const std::lock_guard lock(board_.mutex_);
      cancelled_ = !board_.stuck_;
    }

   private:
    Switchboard& board_;
    Line line_;
    void* data_;
    int64_t number_ = 0;
    bool done_ = false;
    bool cancelled_ = false;
    size_t bytes_ = 0;
  };

  class ThreadLink final : public comm::Link {
   public:
    ThreadLink(Switchboard& board, int rank) : board_(board), rank_(rank) {}
    ~ThreadLink() override {
      const std::lock_guard lock(board_.mutex_);
      board_.ended_.insert(rank_);
    }
    int rank() const override {
      return rank_;
    }
    int size() const override {
      return board_.size_;
    }
    std::unique_ptr<comm::Transfer> send(
        int to,
        int tag,
        const void* data,
        size_t bytes) override {
      return std::make_unique<Sending>(
          board_, Line{rank_, to, tag}, data, bytes);
    }
    void advance() override {} // a transfer moves when it is looked at
    void abandon() override {}
    bool survives_losses() const override {
      return true;
    }
    std::unique_ptr<comm::Transfer> receive(
        int from,
        int tag,
        void* data,
        size_t /*bytes*/) override {
      return std::make_unique<Receiving>(board_, Line{from, rank_, tag}, data);
    }

   private:
    Switchboard& board_;
    int rank_;
  };

  int size_;
  std::mutex mutex_;
  std::set<int> cut_;
  std::set<int> muted_;
  std::map<int, int> mute_after_;
  bool stuck_ = false;
  std::set<int> ended_; // nobody receives there any more
  std::map<Line, std::deque<Message>> lines_;
  std::map<Line, int64_t> num_receiving_;
  std::map<Line, int64_t> num_received_;
};

} // namespace zero::test
