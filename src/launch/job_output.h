// Defines JobOutput: the pipes from all ranks, and the way of what comes out of
// them to the output of the job. Used by the supervisor, which polls.
//
//   JobOutput output;
//   output.add_rank(std::move(process.out), std::move(process.err), "[0] ",
//   ...); auto descriptors = output.descriptors(); poll(descriptors.data(),
//   ...); output.handle(descriptors);
//
// Single-threaded; its writer is another thread.
#pragma once

#include <poll.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launch/output_writer.h"
#include "launch/rank_output.h"

namespace zero::launch {

class JobOutput {
 public:
  // Adds the next rank, beginning with 0, by the ends of its pipes.
  void add_rank(
      base::UniqueFd out,
      base::UniqueFd err,
      const std::string& out_label,
      const std::string& err_label);

  // What to wait for: output of the ranks, unless there is enough of it
  // already, and progress in writing it.
  std::vector<pollfd> descriptors() const;

  // Reads what is ready after a poll of them; more may follow in the list.
  void handle(const std::vector<pollfd>& descriptors);

  // Reads what is in the pipes and ends all lines. Not until the end of the
  // pipes: a process that is not ours may hold the other end.
  void take_the_rest();
  void take_the_rest(int rank); // of one

  // Puts a message of the launcher behind all that was read so far.
  void say(std::string message);

  const std::deque<std::string>& last_lines(int rank) const;
  const OutputWriter& writer() const {
    return writer_;
  }

 private:
  struct Pipe {
    base::UniqueFd fd;
    Stream stream;
    RankOutput* rank;
  };

  // Reads at least `enough` bytes, or what there is.
  static void read(Pipe& pipe, size_t enough);

  OutputWriter writer_;
  std::vector<std::unique_ptr<RankOutput>> ranks_;
  std::vector<Pipe> pipes_;
};

} // namespace zero::launch
