#include "cli/doctor/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace zero::cli {

namespace {

constexpr std::chrono::seconds kCaptureLimit(10);

// 0 if it could not be started.
pid_t start(std::vector<std::string>& command, int out) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (auto& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(
      &actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(
      &pid, arguments[0], &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

std::string read_until(int fd, base::TimePoint deadline) {
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - base::Clock::now());
    pollfd descriptor{fd, POLLIN, 0};
    std::array<char, 4096> buffer{};
    if (left.count() <= 0 ||
        ::poll(&descriptor, 1, static_cast<int>(left.count())) <= 0) {
      return text;
    }
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

} // namespace

std::string capture(std::vector<std::string> command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return "";
  }
  const base::UniqueFd in(ends[0]);
  base::UniqueFd out(ends[1]);
  const pid_t pid = start(command, out.get());
  out.reset();
  if (pid == 0) {
    return "";
  }
  const std::string text =
      read_until(in.get(), base::Clock::now() + kCaptureLimit);
  ::kill(pid, SIGKILL); // nothing to it that has ended
  int status = 0;
  ::waitpid(pid, &status, 0);
  // Killed between its last word and its end, it has done its work.
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (status != 0 && !(killed && !text.empty())) {
    return "";
  }
  return text.substr(0, text.find('\n'));
}

} // namespace zero::cli
