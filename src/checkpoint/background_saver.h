// Defines BackgroundSaver: writes checkpoints while training goes on. A step
// waits for no more than a copy of what its rank owns.
#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/write_checkpoint.h"
#include "comm/shm/group.h"

namespace zero::checkpoint {

class BackgroundSaver {
 public:
  // Collective. Ranks of `group` save; what they have to tell each other about
  // it does not go between what they compute.
  explicit BackgroundSaver(const std::shared_ptr<comm::Group>& group);
  ~BackgroundSaver(); // when the last one is written
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Collective. Waits for the one before, then copies.
  std::shared_future<std::string> begin(
      Destination destination,
      Snapshot snapshot);

  void wait(); // for the last one, however it ended

  // Whether it was made for these ranks.
  bool serves(const std::shared_ptr<comm::Group>& group) const {
    return trained_by_.lock() == group;
  }

 private:
  void copy(Snapshot& snapshot);

  std::weak_ptr<comm::Group> trained_by_;
  std::shared_ptr<comm::Group> group_;
  std::vector<std::byte> copy_; // kept: its pages are there the next time
  std::thread thread_;
};

} // namespace zero::checkpoint
