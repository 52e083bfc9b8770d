// A rank that is alive but does not come: a warning, and an error in the end.
#include <chrono>
#include <regex>
#include <thread>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Late : public ::testing::TestWithParam<Backend> {
 protected:
  InitOptions options_{
      .timeout_seconds = 5,
      .progress_timeout_seconds = 1.5,
      .verify = {}};
};

TEST_P(Late, AnOperationFailsAfterTheProgressTimeout) {
  run_ranks(
      GetParam(),
      2,
      [](World world) {
        auto comm = world.communicator();
        comm.barrier();
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(4));
          return;
        }
        try {
          comm.all_reduce(at::ones({10})).wait();
          ADD_FAILURE();
        } catch (const CommTimeout& error) {
          EXPECT_EQ(error.rank(), 1);
          EXPECT_EQ(error.operation(), "all_reduce");
          EXPECT_EQ(error.sequence(), 1);
          EXPECT_NE(std::string(error.what()).find("alive"), std::string::npos)
              << error.what();
        }
      },
      options_);
}

TEST_P(Late, AMessageFailsAfterTheProgressTimeout) {
  run_ranks(
      GetParam(),
      2,
      [](World world) {
        auto comm = world.communicator();
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(8));
          return;
        }
        Work work = comm.recv(at::ones({10}), 1);
        EXPECT_THROW(work.wait(), CommTimeout);
        EXPECT_THROW(work.wait(), CommTimeout); // the same again
      },
      options_);
}

TEST_P(Late, ShrinkFailsWhenALivingRankDoesNotCome) {
  run_ranks(
      GetParam(),
      2,
      [](World world) {
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(4));
          return;
        }
        EXPECT_THROW(world.shrink(), CommTimeout);
      },
      options_);
}

TEST_P(Late, ARankThatLeftIsLostToThoseWhoWaitForIt) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    comm.barrier();
    if (comm.rank() == 1) {
      return;
    }
    try {
      comm.barrier();
      ADD_FAILURE();
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_EQ(error.operation(), "barrier");
      EXPECT_EQ(error.sequence(), 1);
    }
    world.shrink();
    EXPECT_EQ(world.size(), 2);
    EXPECT_EQ(world.rank(), comm.rank() == 0 ? 0 : 1);
    world.barrier();
  });
}

TEST(LateWarning, NamesTheRankWhereItIsAndWhereItIsAwaited) {
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  {
    Processes ranks(2, [&](World world) {
      auto comm = world.communicator();
      comm.barrier();
      if (comm.rank() == 0) {
        ::dup2(pipe_fds[1], STDERR_FILENO);
      } else {
        const Work unfinished = comm.all_gather(at::ones({4}));
        std::this_thread::sleep_for(std::chrono::seconds(12));
      }
      if (comm.rank() == 0) {
        comm.all_gather(at::ones({4})).wait();
      }
      comm.all_reduce(at::ones({10})).wait();
    });
    EXPECT_EQ(ranks.wait(0), 0);
    EXPECT_EQ(ranks.wait(1), 0);
  }
  ::close(pipe_fds[1]);
  std::string text(4096, '\0');
  const auto bytes = ::read(pipe_fds[0], text.data(), text.size());
  ::close(pipe_fds[0]);
  text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  const std::regex expected(
      "rank 1 is late: awaited for 1[0-9] s in all_reduce\\(sum, float32, 10 "
      "elements\\) #2; it (is in|has completed) all_gather #1");
  EXPECT_TRUE(std::regex_search(text, expected)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Late,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace zero::test
