// Defines GradientFlags: which ranks have had a gradient for which parameter in
// this round, in words of shared memory. Used by Reducer; and by the engine, to
// tell which frozen parameters are to be trained.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/window_state.h"
#include "shard/partition.h"

namespace zero::reduce {

// A parameter of the reducer: which partition, and which one there.
struct ParameterId {
  int partition = 0;
  int number = 0;
};

// Each word is the round in which a rank last had a gradient; only that rank
// writes it.
class GradientFlags {
 public:
  GradientFlags(
      std::shared_ptr<comm::WindowState> control,
      int64_t offset,
      const std::vector<const shard::Partition*>& partitions)
      : control_(std::move(control)), offset_(offset) {
    for (const auto* partition : partitions) {
      first_.push_back(num_words_);
      num_words_ += static_cast<int>(partition->parameters().size());
    }
  }
  static int64_t bytes(const std::vector<const shard::Partition*>& partitions) {
    size_t count = 0;
    for (const auto* partition : partitions) {
      count += partition->parameters().size();
    }
    return static_cast<int64_t>(count * sizeof(std::atomic<uint64_t>));
  }

  void set(ParameterId id) {
    write(word(control_->rank, id), round_);
  }
  bool any(ParameterId id) const {
    for (int rank = 0; rank < control_->size; ++rank) {
      if (word(rank, id) == round_) {
        return true;
      }
    }
    return false;
  }
  bool own(ParameterId id) const {
    return word(control_->rank, id) == round_;
  }
  void clear() {
    for (int i = 0; i < num_words_; ++i) {
      write(words(control_->rank)[i], 0);
    }
  }
  void next_round() {
    ++round_;
  }
  // The round, and this rank's words, of one for the first of the partitions.
  void take_over(const GradientFlags& other) {
    round_ = other.round_;
    for (int i = 0; i < other.num_words_; ++i) {
      write(words(control_->rank)[i], other.words(control_->rank)[i]);
    }
  }

 private:
  void write(std::atomic<uint64_t>& word, uint64_t value) const {
    if (word != value) {
      word = value;
      control_->store_word(word);
    }
  }
  std::atomic<uint64_t>* words(int rank) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(
        control_->data(rank) + offset_);
  }
  std::atomic<uint64_t>& word(int rank, ParameterId id) const {
    return words(rank)[first_[static_cast<size_t>(id.partition)] + id.number];
  }

  std::shared_ptr<comm::WindowState> control_;
  int64_t offset_;
  std::vector<int> first_; // by partition
  int num_words_ = 0;
  uint64_t round_ = 1;
};

} // namespace zero::reduce
