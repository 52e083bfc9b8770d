#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/shared_mapping.h"
#include "base/unique_fd.h"
#include "cli/doctor/finding.h"

namespace zero::cli {

namespace {

using base::SharedMapping;
using Word = std::atomic<uint32_t>;

constexpr std::chrono::seconds kSleep(2);
constexpr std::chrono::seconds kWakeLimit(10);

Finding required(const std::string& what) {
  return {.what = what, .required = true};
}

Finding examine_shared_memory() {
  Finding finding = required("sealed shared memory (memfd_create)");
  try {
    SharedMapping::create("zero-doctor", 1 << 16);
  } catch (const Error& error) {
    finding.mark = Mark::missing;
    finding.remedy = error.what();
  }
  return finding;
}

Finding examine_pidfd() {
  Finding finding = required("watching processes (pidfd_open)");
  const base::UniqueFd fd(
      static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!fd.valid()) {
    finding.mark = Mark::missing;
    finding.remedy = c10::str(
        std::strerror(errno),
        ": needs Linux 5.3, and a seccomp profile that allows it");
  }
  return finding;
}

// What a rank does to reach another one's memory, and to wake it.
[[noreturn]] void reach(base::SegmentAddress address) {
  try {
    const auto mapping = SharedMapping::open(address);
    // So that the parent sleeps when it is to be woken.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    auto& word = *reinterpret_cast<Word*>(mapping->data());
    word = 1;
    base::futex_wake_all(word);
    ::_exit(0);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

// Tried out with a child process, which opens the memory as a stranger would.
std::vector<Finding> examine_sharing() {
  Finding open = required("opening the memory of other processes (/proc)");
  Finding wake = required("waking other processes (futex)");
  bool opened = false;
  bool woken = false;
  try {
    const auto mapping = SharedMapping::create("zero-doctor", 1 << 16);
    auto& word = *new (mapping->data()) Word(0);
    const auto address = mapping->address();
    const pid_t child = ::fork();
    if (child == 0) {
      reach(address);
    }
    const auto start = base::Clock::now();
    bool running = child > 0;
    while (running && word == 0 && base::Clock::now() - start < kWakeLimit) {
      base::futex_wait(word, 0, kSleep);
      running = ::waitpid(child, nullptr, WNOHANG) == 0;
    }
    opened = word == 1;
    // Had the wake been lost, the sleep would have lasted to its end.
    woken = opened && base::Clock::now() - start < kSleep;
    if (running) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  } catch (const Error&) {
    open.mark = wake.mark = Mark::missing;
    open.remedy = wake.remedy = "first see to the memory to share, above";
    return {open, wake};
  }
  if (!opened) {
    open.mark = Mark::missing;
    open.remedy = "mount /proc, and run all ranks as one user in one container";
  }
  if (!woken) {
    wake.mark = opened ? Mark::slow : Mark::missing;
    wake.remedy = opened
        ? "took long: the machine is busy, or futex is emulated (gVisor)"
        : "could not be tried without the above";
  }
  return {open, wake};
}

Finding examine_huge_pages() {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  // "always within_size [advise] never deny force"
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  const std::string setting =
      begin == std::string::npos || end == std::string::npos
      ? "not supported"
      : line.substr(begin + 1, end - begin - 1);
  Finding finding{.what = c10::str("huge pages for shared memory: ", setting)};
  if (setting == "never" || setting == "deny" || setting == "not supported") {
    finding.mark = Mark::slow;
    finding.remedy = c10::str("as root: echo advise > ", path);
  }
  return finding;
}

} // namespace

std::vector<Finding> examine_system() {
  std::vector<Finding> findings{examine_shared_memory(), examine_pidfd()};
  for (auto& finding : examine_sharing()) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(examine_huge_pages());
  return findings;
}

} // namespace zero::cli
