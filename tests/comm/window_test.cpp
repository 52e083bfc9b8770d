// Memory that others read, without its owner taking part.
#include <chrono>
#include <csignal>
#include <thread>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Windows : public ::testing::TestWithParam<Backend> {};

TEST_P(Windows, EveryRankReadsEveryOther) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    // Each rank has another size, one of them none.
    const int64_t numel = 1000 * comm.rank();
    const Window window = comm.window(numel * 4);
    window.local(at::kFloat, 0, numel).fill_(comm.rank());
    comm.barrier();
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(window.bytes(rank), 4000 * rank);
      Tensor in = at::empty({1000 * rank});
      window.get(in, rank).wait();
      EXPECT_TRUE(at::equal(in, at::full_like(in, rank)));
    }
    const auto* last = static_cast<const float*>(window.data(2));
    EXPECT_EQ(last[1999], 2);
    // The counter has what came from others.
    const int64_t own = 4000 * comm.rank();
    EXPECT_EQ(comm.traffic(CommOp::get).bytes_received, 4000 + 8000 - own);
    comm.barrier();
  });
}

TEST_P(Windows, APartIsReadFromAnOffset) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    const Window window = comm.window(100 * 8);
    window.local(at::kLong, 0, 100).copy_(at::arange(100));
    comm.barrier();
    Tensor in = at::empty({7}, at::kLong);
    window.get(in, 1 - comm.rank(), 40 * 8).wait();
    EXPECT_TRUE(at::equal(in, at::arange(40, 47)));
    comm.barrier();
  });
}

TEST_P(Windows, TheOwnerNeedNotCallAnything) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    const Window window = comm.window(8);
    window.local().zero_();
    comm.barrier();
    if (comm.rank() == 0) {
      // Computes, and never enters the library.
      auto* own = const_cast<std::atomic<int64_t>*>(
          static_cast<const std::atomic<int64_t>*>(window.data(0)));
      const auto start = std::chrono::steady_clock::now();
      for (int64_t i = 1;
           std::chrono::steady_clock::now() - start < std::chrono::seconds(2);
           ++i) {
        own->store(i);
      }
    } else {
      // Sees the number grow meanwhile.
      int64_t growth = 0;
      int64_t last = 0;
      const auto start = std::chrono::steady_clock::now();
      while (growth < 10 &&
             std::chrono::steady_clock::now() - start <
                 std::chrono::seconds(60)) {
        const auto* theirs =
            static_cast<const std::atomic<int64_t>*>(window.data(0));
        const int64_t seen = theirs->load();
        growth += seen > last ? 1 : 0;
        last = seen;
      }
      EXPECT_EQ(growth, 10);
    }
    comm.barrier();
  });
}

TEST_P(Windows, ATensorKeepsTheMemoryAlive) {
  run_ranks(GetParam(), 2, [](World world) {
    Tensor tensor;
    {
      const Window window = world.communicator().window(4096);
      tensor = window.local(at::kFloat, 0, 1024);
    }
    tensor.fill_(3);
    EXPECT_EQ(tensor.sum().item<float>(), 3072);
  });
}

TEST_P(Windows, ReachingBeyondIsRefused) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    const Window window = comm.window(64);
    Tensor in = at::empty({16});
    EXPECT_THROW(window.get(in, 0, 4).wait(), ConfigError);
    EXPECT_THROW(window.get(in, 0, -4).wait(), ConfigError);
    EXPECT_THROW(window.get(in, 2).wait(), ConfigError);
    EXPECT_THROW(window.get(in.t().expand({2, 16}), 0).wait(), ConfigError);
    EXPECT_THROW(window.local(at::kFloat, 0, 17), ConfigError);
    EXPECT_THROW(window.local(at::kFloat, 2, 1), ConfigError);
    EXPECT_THROW(window.local(at::kFloat, 0, -1), ConfigError);
    EXPECT_THROW(window.data(-1), ConfigError);
    comm.barrier();
  });
}

TEST_P(Windows, ANegativeSizeIsAnErrorOnEveryRank) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    EXPECT_THROW(comm.window(comm.rank() == 0 ? -1 : 8), ConfigError);
    comm.barrier(); // and the communicator goes on
  });
}

TEST_P(Windows, WhatDoesNotFitMemoryIsAnErrorOnEveryRank) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    EXPECT_THROW(comm.window(comm.rank() == 0 ? 8 : int64_t{1} << 60), IoError);
    comm.barrier();
  });
}

TEST(WindowOfALostRank, CanStillBeRead) {
  Processes ranks(2, [](World world) {
    auto comm = world.communicator();
    const Window window = comm.window(8);
    window.local(at::kLong, 0, 1).fill_(comm.rank() + 41);
    comm.barrier();
    if (comm.rank() == 1) {
      ::raise(SIGKILL);
    }
    EXPECT_THROW(comm.barrier(), PeerLost);
    Tensor in = at::empty({1}, at::kLong);
    window.get(in, 1).wait();
    EXPECT_EQ(in.item<int64_t>(), 42);
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Windows,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace zero::test
