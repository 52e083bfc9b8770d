// Ranks that disagree get an error that says so, on every rank.

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Verify : public ::testing::TestWithParam<Backend> {
 protected:
  // Rank 1 does `odd`, the others `usual`; returns after each got an error that
  // has all of `texts` in it.
  void disagree(
      const std::function<void(Communicator)>& usual,
      const std::function<void(Communicator)>& odd,
      const std::vector<std::string>& texts) {
    run_ranks(
        GetParam(),
        3,
        [&](World world) {
          auto comm = world.communicator();
          comm.barrier();
          comm.barrier();
          try {
            (comm.rank() == 1 ? odd : usual)(comm);
            ADD_FAILURE() << "rank " << comm.rank() << " got no error";
          } catch (const CommError& error) {
            for (const auto& text : texts) {
              EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
                  << error.what();
            }
          }
          // A new communicator of the same ranks works.
          auto again = comm.shrink();
          Tensor one = at::ones({4});
          again.all_reduce(one).wait();
          EXPECT_TRUE(at::equal(one, at::full({4}, 3.0F)));
        },
        {.timeout_seconds = {},
         .progress_timeout_seconds = 60,
         .verify = true});
  }
};

Tensor floats(int64_t numel) {
  return at::ones({numel});
}

TEST_P(Verify, AnotherOperation) {
  disagree(
      [](Communicator comm) { comm.all_reduce(floats(8)).wait(); },
      [](Communicator comm) { comm.all_gather(floats(8)).wait(); },
      {"#2",
       "rank 0 called all_reduce(sum, float32, 8 elements)",
       "rank 1 called all_gather(float32, 8 elements)"});
}

TEST_P(Verify, AnotherSize) {
  disagree(
      [](Communicator comm) { comm.all_reduce(floats(1'000'000)).wait(); },
      [](Communicator comm) { comm.all_reduce(floats(10)).wait(); },
      {"#2", "rank 1 called all_reduce(sum, float32, 10 elements)"});
}

TEST_P(Verify, NothingAgainstSomething) {
  disagree(
      [](Communicator comm) { comm.all_reduce(floats(0)).wait(); },
      [](Communicator comm) { comm.all_reduce(floats(100'000)).wait(); },
      {"#2", "rank 0 called all_reduce(sum, float32, 0 elements)"});
}

TEST_P(Verify, AnotherType) {
  disagree(
      [](Communicator comm) { comm.reduce_scatter(floats(8)).wait(); },
      [](Communicator comm) {
        comm.reduce_scatter(floats(8).to(at::kBFloat16)).wait();
      },
      {"#2", "rank 1 called reduce_scatter(sum, bfloat16, 8 elements)"});
}

TEST_P(Verify, AnotherReduction) {
  disagree(
      [](Communicator comm) { comm.all_reduce(floats(8)).wait(); },
      [](Communicator comm) {
        comm.all_reduce(floats(8), ReduceOp::max).wait();
      },
      {"#2", "rank 1 called all_reduce(max, float32, 8 elements)"});
}

TEST_P(Verify, AnotherRoot) {
  disagree(
      [](Communicator comm) { comm.broadcast(floats(8), 0).wait(); },
      [](Communicator comm) { comm.broadcast(floats(8), 1).wait(); },
      {"#2", "rank 1 called broadcast(root 1, float32, 8 elements)"});
}

TEST_P(Verify, AWindowAgainstASplit) {
  disagree(
      [](Communicator comm) { comm.split(0, 0); },
      [](Communicator comm) { comm.window(8); },
      {"#2", "rank 0 called split()", "rank 1 called window()"});
}

TEST_P(Verify, MessagesOfAnotherSize) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    try {
      if (comm.rank() == 0) {
        comm.send(floats(10), 1).wait();
      } else {
        comm.recv(floats(11), 0).wait();
      }
      ADD_FAILURE() << "rank " << comm.rank() << " got no error";
    } catch (const CommError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("10 elements"), std::string::npos) << text;
      EXPECT_NE(text.find("11 elements"), std::string::npos) << text;
      EXPECT_NE(text.find("#0"), std::string::npos) << text;
    }
  });
}

TEST_P(Verify, ManyAgreeingCallsWrapTheRingOfSignatures) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    for (int i = 0; i < 1000; ++i) {
      comm.all_reduce(floats(i % 7)).wait();
    }
    std::vector<Work> works;
    for (int i = 0; i < 100; ++i) {
      works.push_back(comm.all_reduce(floats(i % 3)));
    }
    works.back().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Verify,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace zero::test
