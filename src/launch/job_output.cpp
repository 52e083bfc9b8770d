#include "launch/job_output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace zero::launch {

namespace {

// More than a pipe holds.
constexpr size_t kPipeBytes = 1 << 20;

} // namespace

void JobOutput::add_rank(
    base::UniqueFd out,
    base::UniqueFd err,
    const std::string& out_label,
    const std::string& err_label) {
  ranks_.push_back(std::make_unique<RankOutput>(writer_, out_label, err_label));
  pipes_.push_back({std::move(out), Stream::out, ranks_.back().get()});
  pipes_.push_back({std::move(err), Stream::err, ranks_.back().get()});
}

std::vector<pollfd> JobOutput::descriptors() const {
  std::vector<pollfd> descriptors{{writer_.event_fd(), POLLIN, 0}};
  // When ranks write faster than the output takes it, they have to wait, as
  // they would for a terminal. poll() passes over negative descriptors.
  const bool full = writer_.full();
  for (const auto& pipe : pipes_) {
    descriptors.push_back({full ? -1 : pipe.fd.get(), POLLIN, 0});
  }
  return descriptors;
}

void JobOutput::handle(const std::vector<pollfd>& descriptors) {
  if (descriptors[0].revents != 0) {
    writer_.clear_event();
  }
  for (size_t i = 0; i < pipes_.size(); ++i) {
    if (descriptors[i + 1].revents != 0) {
      read(pipes_[i], 1);
    }
  }
}

void JobOutput::read(Pipe& pipe, size_t enough) {
  std::array<char, 1 << 16> buffer; // NOLINT(*-member-init): read() fills it
  size_t total = 0;
  while (pipe.fd.valid() && total < enough) {
    const ssize_t got = ::read(pipe.fd.get(), buffer.data(), buffer.size());
    if (got > 0) {
      const auto bytes = static_cast<size_t>(got);
      pipe.rank->take(pipe.stream, {buffer.data(), bytes});
      total += bytes;
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else if (got == 0 || errno != EINTR) {
      pipe.fd.reset();
    }
  }
}

void JobOutput::take_the_rest() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    take_the_rest(static_cast<int>(rank));
  }
}

void JobOutput::take_the_rest(int rank) {
  RankOutput* const output = ranks_[static_cast<size_t>(rank)].get();
  for (auto& pipe : pipes_) {
    if (pipe.rank == output) {
      read(pipe, kPipeBytes);
    }
  }
  output->finish();
}

void JobOutput::say(std::string message) {
  writer_.put(Stream::err, std::move(message));
}

const std::deque<std::string>& JobOutput::last_lines(int rank) const {
  return ranks_[static_cast<size_t>(rank)]->last_lines();
}

} // namespace zero::launch
