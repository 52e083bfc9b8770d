#include "launch/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace zero::launch {

using base::UniqueFd;

namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Throws: IoError for the call that was refused.
[[noreturn]] void refuse(const char* call, int error) {
  const char* fix = error == EAGAIN
      ? "raise the limit of processes (ulimit -u, or pids.max of the container)"
      : error == ENOMEM ? "free memory"
                        : "raise the limit of open files (ulimit -n)";
  throw IoError(base::system_message(
      c10::str("cannot start a rank. Fix: ", fix, ", or use fewer ranks"),
      call,
      error));
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    refuse("pipe2", errno);
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

UniqueFd open_null() {
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) {
    refuse("open(/dev/null)", errno);
  }
  return null;
}

// For execvpe, which wants them writable; they stay the strings' own.
std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const auto& string : strings) {
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs; made before the fork, as it must not allocate.
struct Child {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int stdin_fd;
  int out_fd;
  int err_fd;
  int error_fd;
  pid_t supervisor;
};

[[noreturn]] void become_rank(
    const Child& child,
    const LaunchSignals& signals) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.supervisor) {
    ::_exit(1); // it died before it was watched
  }
  // Signals to the rank reach what it started, and no other rank.
  ::setpgid(0, 0);
  ::dup2(child.stdin_fd, STDIN_FILENO);
  ::dup2(child.out_fd, STDOUT_FILENO);
  ::dup2(child.err_fd, STDERR_FILENO);
  signals.restore();
  ::execvpe(
      child.arguments[0], child.arguments.data(), child.environment.data());
  const int error = errno;
  [[maybe_unused]] auto written =
      ::write(child.error_fd, &error, sizeof(error));
  ::_exit(127);
}

// 0 once the program runs, else the errno of exec.
int exec_error(const UniqueFd& pipe) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(error)) ? error : 0;
}

[[noreturn]] void refuse_program(const std::string& program, int error) {
  std::string fix = "check the name";
  if (error == ENOENT && program.find('/') == std::string::npos) {
    fix =
        "check the name, which is sought in PATH; a program of this "
        "directory is ./" +
        program;
  } else if (error == ENOENT && ::access(program.c_str(), F_OK) == 0) {
    fix = "install the interpreter that its first line names";
  } else if (error == EACCES) {
    fix = "name a file that this user may execute";
  } else if (error == ENOEXEC) {
    fix = "name a program of this machine's architecture";
  } else if (error == E2BIG) {
    fix = "pass fewer or shorter arguments";
  }
  throw ProgramError(
      c10::str(
          "cannot run ", program, ": ", std::strerror(error), ". Fix: ", fix),
      error == ENOENT ? 127 : 126);
}

} // namespace

RankProcess start_rank(
    const RankRequest& request,
    const LaunchSignals& signals) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe error = make_pipe();
  const UniqueFd null = open_null();
  const Child child{
      .arguments = pointers_to(request.command),
      .environment = pointers_to(request.environment),
      .stdin_fd = request.inherit_stdin ? STDIN_FILENO : null.get(),
      .out_fd = out.write.get(),
      .err_fd = err.write.get(),
      .error_fd = error.write.get(),
      .supervisor = ::getpid()};

  const pid_t pid = ::fork();
  if (pid < 0) {
    refuse("fork", errno);
  }
  if (pid == 0) {
    become_rank(child, signals);
  }
  error.write.reset();
  if (const int refused = exec_error(error.read); refused != 0) {
    ::waitpid(pid, nullptr, 0);
    refuse_program(request.command[0], refused);
  }
  // Only our ends: the rank's are blocking, as every program expects.
  ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  return {pid, std::move(out.read), std::move(err.read)};
}

} // namespace zero::launch
