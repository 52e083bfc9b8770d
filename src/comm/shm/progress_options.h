// Defines what Progress needs to know about its group.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/shm/operation.h"

namespace zero::comm {

struct ProgressOptions {
  int rank = 0;
  double progress_timeout_seconds = 0;
  bool may_spin = false; // whether each rank has a core of its own
  // How long what a living rank has said may be under way. A rank that is done
  // and gone may be heard of before others that are as far.
  double news_seconds = 0;
  // The ranks of the group that are gone, those first that are the cause.
  std::function<std::vector<int>()> lost_ranks;
  // Of one of these: it was not lost, but took leave.
  std::function<bool(int)> left_in_order;
  std::function<std::string(int)> epitaph; // what to say of one
  // A rank that has given up the communicator by shrink(), or -1: it takes no
  // part any more, so who waits for it has to stop waiting too.
  std::function<int()> deserter;
  std::function<void(const Operation&)> on_complete;
  // Over several hosts: moves what goes between them, for who would only wait.
  // True if anything did.
  std::function<bool()> help;
};

} // namespace zero::comm
