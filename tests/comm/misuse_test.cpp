// What users do by mistake, and what must not bring a job down or hang it.
#include <chrono>
#include <thread>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Misuse : public ::testing::TestWithParam<Backend> {};

TEST_P(Misuse, ASecondShrinkGivesTheSameGroup) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    auto first = comm.shrink();
    auto second = comm.shrink();
    world.shrink(); // the world's group is the one that was shrunk
    EXPECT_EQ(second.size(), 3);
    for (auto group : {first, second, world.communicator()}) {
      Tensor one = at::ones({10});
      group.all_reduce(one).wait();
      EXPECT_TRUE(at::equal(one, at::full({10}, 3.0F)));
    }
    EXPECT_THROW(comm.barrier(), CommError); // the old one is given up
  });
}

// The handle of before may be all that a program has kept.
TEST(MisuseProcesses, ShrinkingTheSameGroupAgainLeavesOutWhoWasLostSince) {
  Processes ranks(3, [](World world) {
    auto comm = world.communicator();
    if (world.rank() == 2) {
      ::_exit(0);
    }
    EXPECT_THROW(comm.barrier(), PeerLost);
    auto two = comm.shrink();
    EXPECT_EQ(two.size(), 2);
    two.barrier();
    if (two.rank() == 1) {
      ::_exit(0);
    }
    EXPECT_THROW(two.barrier(), PeerLost);
    auto one = comm.shrink();
    EXPECT_EQ(one.size(), 1);
    one.barrier();
    world.shrink();
    EXPECT_EQ(world.size(), 1);
    world.barrier();
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

TEST_P(Misuse, EverythingDroppedWithAnOperationUnderWay) {
  run_ranks(GetParam(), 2, [](World world) {
    for (int i = 0; i < 20; ++i) {
      auto part = world.communicator().split(0, 0);
      const Window window = part.window(8 << 20);
      Tensor tensor = window.local(at::kFloat, 0, 2 << 20);
      const Work dropped = part.all_reduce(tensor);
    }
    world.barrier();
  });
}

TEST_P(Misuse, WhoDropsACommunicatorIsLostToIt) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    {
      auto part = comm.split(0, 0);
      if (comm.rank() != 1) {
        try {
          part.all_reduce(at::ones({100'000})).wait();
          ADD_FAILURE();
        } catch (const PeerLost& error) {
          EXPECT_EQ(error.rank(), 1) << error.what();
        }
        // The others go on without it.
        auto rest = part.shrink();
        EXPECT_EQ(rest.size(), 2);
        rest.barrier();
      }
    }
    world.barrier(); // nobody is lost to the world
  });
}

TEST_P(Misuse, ARefusedChannelStaysRefused) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (comm.rank() == 0) {
        EXPECT_THROW(comm.send(at::ones({10}), 1).wait(), CommError);
      } else {
        EXPECT_THROW(
            comm.recv(at::ones({attempt == 0 ? 11 : 10}), 0).wait(), CommError);
      }
    }
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Misuse,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

TEST(Misused, AChildThatReturnsDoesNotTakeItsParentAlong) {
  run_ranks(Backend::shm, 2, [](World world) {
    auto comm = world.communicator();
    // Large enough to have started the library's own thread.
    const Work early = comm.all_reduce(at::ones({1'000'000}));
    if (comm.rank() == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        {
          const World copy = std::move(world);
          const Communicator other = std::move(comm);
        }
        ::_exit(0);
      }
      int status = -1;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    comm.barrier();
  });
}

TEST(Misused, AForkedChildThatCommunicatesIsRefused) {
  run_ranks(Backend::shm, 2, [](World world) {
    auto comm = world.communicator();
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        comm.all_reduce(at::ones({3})).wait();
      } catch (const ConfigError& error) {
        const std::string text = error.what();
        ::_exit(text.find("fork()") != std::string::npos ? 0 : 1);
      }
      ::_exit(2);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    comm.barrier();
  });
}

TEST(Misused, InitAfterTheWorldWasDroppedButNotItsCommunicator) {
  const Communicator comm = init().communicator();
  EXPECT_EQ(init().size(), comm.size());
}

} // namespace
} // namespace zero::test
