// Defines Job: a program under test, mostly `zero run`, as a real process with
// its output in files; and how to find every process that came of it.
//
//   Job job(zero_run(2, {"sh", "-c", "echo hello"}));
//   EXPECT_EQ(job.wait(), 0);
//   EXPECT_EQ(job.sorted_out(), "[0] hello\n[1] hello\n");
//   EXPECT_TRUE(job.nothing_left());
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace zero::test {

using Strings = std::vector<std::string>;

// Long enough for a machine that is busy with other tests.
inline constexpr std::chrono::seconds kPatience(60);

// Whether a condition comes true.
inline bool eventually(const std::function<bool()>& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - start > kPatience) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline std::string zero_program() {
  const char* path = std::getenv("ZERO_PROGRAM");
  if (path != nullptr) {
    return path;
  }
  // A test that is started by hand lies beside it.
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path() / "zero";
}

inline Strings zero_run(
    int num_ranks,
    const Strings& program,
    const Strings& options = {}) {
  Strings command{zero_program(), "run", "-n", std::to_string(num_ranks)};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

inline Strings shell(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string last_line(const std::string& text) {
  return text.empty() ? "" : text.substr(text.rfind('\n', text.size() - 2) + 1);
}

// The program of failing_ranks.cpp, which lies beside that of the tests.
inline Strings failing_ranks(const Strings& arguments) {
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe");
  Strings command{self.parent_path() / "failing_ranks"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name =
        std::filesystem::temp_directory_path() / "zero-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
    ::chmod(path_.c_str(), 0755);
  }
  ~TemporaryFolder() {
    std::filesystem::remove_all(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const {
    return path_;
  }

 private:
  std::filesystem::path path_;
};

struct JobOptions {
  Strings set; // "NAME=value"
  Strings unset;
  std::string input; // on standard input
  std::function<void()> prepare; // called in the process, before exec
};

class Job {
 public:
  explicit Job(const Strings& command, const JobOptions& options = {}) {
    static std::atomic<int> count{0};
    mark_ = "ZERO_TEST_JOB=" + std::to_string(::getpid()) + "-" +
        std::to_string(count++);
    std::ofstream(folder_.path() / "in") << options.input;
    pid_ = ::fork();
    if (pid_ == 0) {
      start(command, options);
    }
  }

  ~Job() {
    // Only after a test that failed.
    for (const pid_t pid : processes()) {
      ::kill(pid, SIGKILL);
    }
    if (!ended_) {
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  pid_t pid() const {
    return pid_;
  }
  void kill(int signal) const {
    ::kill(pid_, signal);
  }

  // The exit code; minus the signal if one ended it, -1000 if nothing did.
  int wait() {
    int status = 0;
    ended_ =
        eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended_) {
      return -1000;
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::string out() const {
    return read_file(folder_.path() / "out");
  }
  std::string err() const {
    return read_file(folder_.path() / "err");
  }
  std::string sorted_out() const {
    return sorted(out());
  }

  static std::string sorted(const std::string& text) {
    std::istringstream stream(text);
    Strings lines;
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(line + "\n");
    }
    std::ranges::sort(lines);
    std::string joined;
    for (const auto& line : lines) {
      joined += line;
    }
    return joined;
  }

  // Whether so many copies of a text come out on standard output.
  bool prints(const std::string& text, int times = 1) const {
    return eventually([&] {
      const std::string all = out();
      int found = 0;
      for (size_t at = all.find(text); at != std::string::npos;
           at = all.find(text, at + 1)) {
        ++found;
      }
      return found >= times;
    });
  }

  // Whether a text comes out on standard error.
  bool complains(const std::string& text) const {
    return eventually([&] { return err().find(text) != std::string::npos; });
  }

  // All that came of the job: they inherited a variable that marks them.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid > 0 && has_mark(pid)) {
        found.push_back(pid);
      }
    }
    return found;
  }
  bool nothing_left() const {
    return eventually([&] { return processes().empty(); });
  }

  // The processes whose parent is `parent`.
  std::vector<pid_t> children_of(pid_t parent) const {
    std::vector<pid_t> found;
    for (const pid_t pid : processes()) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/status");
      std::string line;
      while (std::getline(file, line)) {
        if (line == "PPid:\t" + std::to_string(parent)) {
          found.push_back(pid);
        }
      }
    }
    return found;
  }

  // Of `zero run`: the child of the process that was started.
  pid_t supervisor() const {
    std::vector<pid_t> found;
    eventually([&] { return (found = children_of(pid_)).size() == 1; });
    return found.at(0);
  }

  const std::filesystem::path& folder() const {
    return folder_.path();
  }

 private:
  [[noreturn]] void start(const Strings& command, const JobOptions& options) {
    // A test that dies takes its job along.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core_files{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core_files);
    redirect("in", O_RDONLY, STDIN_FILENO);
    redirect("out", O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
    redirect("err", O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    for (const auto& name : options.unset) {
      ::unsetenv(name.c_str());
    }
    Strings set = options.set;
    set.push_back(mark_);
    for (const auto& variable : set) {
      const size_t equals = variable.find('=');
      ::setenv(
          variable.substr(0, equals).c_str(),
          variable.substr(equals + 1).c_str(),
          1);
    }
    std::vector<char*> arguments;
    for (const auto& argument : command) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    if (options.prepare) {
      options.prepare();
    }
    ::execvp(arguments[0], arguments.data());
    ::_exit(99);
  }

  void redirect(const char* name, int flags, int to) const {
    const int fd = ::open((folder_.path() / name).c_str(), flags, 0666);
    ::dup2(fd, to);
    ::close(fd);
  }

  bool has_mark(pid_t pid) const {
    const std::string environment =
        read_file("/proc/" + std::to_string(pid) + "/environ");
    return environment.find(mark_ + '\0') != std::string::npos;
  }

  TemporaryFolder folder_;
  std::string mark_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

} // namespace zero::test
