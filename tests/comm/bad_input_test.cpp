// What cannot be done is refused with one clear error, and nothing is broken.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <thread>

#include "comm/ranks.h"
#include "comm/shm/segment.h"

namespace zero::test {
namespace {

using at::Tensor;

template <class Exception, class Call>
void expect_error(Call call, const std::vector<std::string>& texts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Exception& error) {
    for (const auto& text : texts) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
          << error.what();
    }
  }
}

TEST(BadInput, AWorldOfNoRanks) {
  expect_error<ConfigError>(
      [] { run_threads(0, [](World) {}); }, {"a world of 0 ranks", "Fix:"});
  expect_error<ConfigError>(
      [] { run_threads(-3, [](World) {}); }, {"a world of -3 ranks"});
  expect_error<ConfigError>(
      [] { run_threads(100'000, [](World) {}); }, {"100000"});
}

TEST(BadInput, ARankOutOfRange) {
  auto roster = comm::Roster::create(2);
  expect_error<ConfigError>(
      [&] { roster.join(2); }, {"rank 2 is out of range", "0 to 1"});
  expect_error<ConfigError>([&] { roster.join(-1); }, {"rank -1"});
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    const Tensor tensor = at::ones({4});
    expect_error<ConfigError>(
        [&] { comm.broadcast(tensor, 2).wait(); },
        {"broadcast", "rank 2 is out of range"});
    expect_error<ConfigError>(
        [&] { comm.send(tensor, -1).wait(); }, {"send", "rank -1"});
    expect_error<ConfigError>(
        [&] { comm.recv(tensor, comm.rank()).wait(); }, {"recv", "itself"});
    comm.barrier();
  });
}

TEST(BadInput, ARankTakenTwice) {
  auto roster = comm::Roster::create(1);
  roster.join(0);
  expect_error<ConfigError>([&] { roster.join(0); }, {"already joined"});
}

TEST(BadInput, TensorsThatCannotBeCommunicated) {
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    expect_error<ConfigError>(
        [&] {
          comm.all_reduce(at::ones({4, 4}).t()).wait();
        },
        {"all_reduce", "contiguous", "strides [1, 4]", "Fix:"});
    expect_error<ConfigError>(
        [&] { comm.all_gather(at::ones({2}, at::kComplexFloat)).wait(); },
        {"all_gather", "ComplexFloat"});
    expect_error<ConfigError>(
        [&] { comm.broadcast(Tensor()).wait(); }, {"broadcast", "undefined"});
    expect_error<ConfigError>(
        [&] {
          comm.all_reduce(at::empty({4}, at::TensorOptions(at::kMeta))).wait();
        },
        {"all_reduce", "on the CPU", "meta"});
    expect_error<ConfigError>(
        [&] {
          comm.all_reduce(at::ones({2, 2}).to_sparse()).wait();
        },
        {"all_reduce", "Sparse", ".to_dense()"});
    comm.barrier();
  });
}

TEST(BadInput, BuffersThatDoNotFitTogether) {
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    expect_error<ConfigError>(
        [&] { comm.reduce_scatter(at::ones({5}), at::ones({7})).wait(); },
        {"reduce_scatter", "output", "got 5", "chunk_range"});
    expect_error<ConfigError>(
        [&] { comm.all_gather(at::ones({7}), at::ones({5})).wait(); },
        {"all_gather", "input", "got 7 and 5"});
    expect_error<ConfigError>(
        [&] { comm.all_to_all(at::ones({7}), at::ones({7})).wait(); },
        {"all_to_all"});
    comm.barrier();
  });
}

TEST(BadInput, InPlaceAllToAllNeedsEqualChunks) {
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    expect_error<ConfigError>(
        [&] { comm.all_to_all(at::ones({7})).wait(); }, {"divides by 2"});
    expect_error<ConfigError>(
        [&] {
          comm.all_gather(at::ones({4}), at::ones({2}, at::kDouble)).wait();
        },
        {"float32", "float64"});
    comm.barrier();
  });
}

// In a process of its own, which `restrict` deprives of something.
void expect_refusal(
    const std::function<void()>& restrict,
    const std::function<void()>& call,
    const std::string& text) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    restrict();
    try {
      call();
    } catch (const IoError& error) {
      const std::string what = error.what();
      if (what.find(text) != std::string::npos) {
        ::_exit(0);
      }
      std::fprintf(stderr, "another error: %s\n", error.what());
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(BadInput, NoMemoryForTheSegment) {
  expect_refusal(
      [] {
        std::ifstream file("/proc/self/statm");
        rlim_t pages = 0;
        file >> pages;
        const rlim_t bytes = pages * 4096 + (1 << 20);
        const rlimit limit{bytes, bytes};
        ::setrlimit(RLIMIT_AS, &limit);
      },
      [] { comm::Segment::create(std::vector<int>(64)); },
      "ulimit -v");
}

TEST(BadInput, AFileSizeLimitIsNamed) {
  expect_refusal(
      [] {
        const rlimit limit{1 << 20, 1 << 20};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      },
      [] { run_threads(2, [](World) {}); },
      "ulimit -f");
}

// As the profile of a container may do it.
void deny_memfd() {
  std::array<sock_filter, 4> filter{
      sock_filter BPF_STMT(
          BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{filter.size(), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("seccomp");
    ::_exit(2);
  }
}

TEST(BadInput, NoPermissionForMemfd) {
  expect_refusal(
      deny_memfd, [] { run_threads(2, [](World) {}); }, "allow memfd_create");
}

TEST(BadInput, RanksThatDoNotAllVerify) {
  auto roster = comm::Roster::create(2);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([rank, roster] {
      expect_error<ConfigError>(
          [&] { comm::join_world(roster, rank, {.verify = rank == 0}); },
          {"verifying is", "ZERO_VERIFY"});
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace zero::test
