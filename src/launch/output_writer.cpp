#include "launch/output_writer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace zero::launch {

namespace {

constexpr size_t kFullBytes = 1 << 20;
constexpr size_t kWriteBytes = 1 << 16;

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // Somebody else made the terminal or pipe, which we share, non-blocking.
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

} // namespace

struct OutputWriter::State {
  struct Text {
    Stream stream;
    std::string bytes;
  };

  base::UniqueFd event;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Text> waiting;
  size_t waiting_bytes = 0; // with those being written
  bool reader_gone = false;
  bool stop = false;
  int write_error = 0;

  void run();
  void write(const Text& text);
};

void OutputWriter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stop || !waiting.empty(); });
    if (stop) {
      return;
    }
    const auto texts = std::exchange(waiting, {});
    lock.unlock();
    for (const auto& text : texts) {
      write(text);
    }
    lock.lock();
  }
}

void OutputWriter::State::write(const Text& text) {
  const int fd = text.stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
  const int error = write_all(fd, text.bytes);
  {
    const std::lock_guard lock(mutex);
    waiting_bytes -= text.bytes.size();
    if (error == EPIPE) {
      reader_gone = true;
    } else if (error != 0 && write_error == 0) {
      write_error = error;
    }
  }
  ::eventfd_write(event.get(), 1);
}

OutputWriter::OutputWriter() : state_(std::make_shared<State>()) {
  state_->event = base::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state_->event.valid()) {
    throw IoError(base::system_message(
        "cannot pass output on. Fix: raise the limit of open files "
        "(ulimit -n), or allow eventfd to this process",
        "eventfd",
        errno));
  }
  std::thread([state = state_] { state->run(); }).detach();
}

OutputWriter::~OutputWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_one();
}

void OutputWriter::put(Stream stream, std::string text) {
  const std::lock_guard lock(state_->mutex);
  auto& waiting = state_->waiting;
  state_->waiting_bytes += text.size();
  if (!waiting.empty() && waiting.back().stream == stream &&
      waiting.back().bytes.size() < kWriteBytes) {
    waiting.back().bytes += text; // fewer, larger writes
  } else {
    waiting.push_back({stream, std::move(text)});
  }
  state_->changed.notify_one();
}

bool OutputWriter::full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting_bytes >= kFullBytes;
}

bool OutputWriter::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting_bytes == 0;
}

bool OutputWriter::reader_gone() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reader_gone;
}

int OutputWriter::write_error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->write_error;
}

int OutputWriter::event_fd() const {
  return state_->event.get();
}

void OutputWriter::clear_event() {
  eventfd_t count = 0;
  ::eventfd_read(state_->event.get(), &count);
}

} // namespace zero::launch
