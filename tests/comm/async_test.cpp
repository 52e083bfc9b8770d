// Operations under way while the rank does something else.

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Async : public ::testing::TestWithParam<Backend> {};

TEST_P(Async, ManyInFlightCompleteInAnyOrderOfWaiting) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back(at::full({1 + i * 997}, i + comm.rank(), at::kFloat));
      works.push_back(comm.all_reduce(tensors.back()));
    }
    for (int i = 99; i >= 0; --i) {
      works[static_cast<size_t>(i)].wait();
      const auto& tensor = tensors[static_cast<size_t>(i)];
      EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 3 * i + 3)));
    }
  });
}

TEST_P(Async, LargeOnesMakeProgressWhileNobodyWaits) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    Tensor tensor = at::full({5'000'000}, 1.0F);
    Work work = comm.all_reduce(tensor);
    // Nobody drives it but the library: done() is not asked either.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto start = std::chrono::steady_clock::now();
    while (!work.done() &&
           std::chrono::steady_clock::now() - start <
               std::chrono::seconds(60)) {
    }
    EXPECT_TRUE(work.done());
    work.wait();
    EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 2)));
  });
}

TEST_P(Async, ASmallOneIsPublishedByTheCallItself) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    Tensor tensor = at::full({2}, 1.0F);
    Tensor token = at::full({1}, 1.0F);
    if (comm.rank() == 0) {
      Work work = comm.all_reduce(tensor);
      // Rank 1 gets its result, and only then lets us go on.
      comm.recv(token, 1).wait();
      work.wait();
    } else {
      comm.all_reduce(tensor).wait();
      comm.send(token, 0).wait();
    }
    EXPECT_TRUE(at::equal(tensor, at::full({2}, 2.0F)));
  });
}

TEST_P(Async, BothWaysBetweenTwoRanksDoNotBlockEachOther) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    const int other = 1 - comm.rank();
    Tensor out = at::full({1'000'003}, comm.rank(), at::kInt);
    Tensor in = at::empty({1'000'003}, at::kInt);
    Work sent = comm.send(out, other);
    Work received = comm.recv(in, other);
    sent.wait();
    received.wait();
    EXPECT_TRUE(at::equal(in, at::full_like(in, other)));
  });
}

TEST_P(Async, MessagesPassCollectives) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    Tensor tensor = at::full({100'000}, 1.0F);
    Tensor note = at::full({10}, comm.rank(), at::kInt);
    if (comm.rank() == 0) {
      Work reduction = comm.all_reduce(tensor); // rank 1 comes later
      comm.send(note, 1).wait();
      reduction.wait();
    } else {
      comm.recv(note, 0).wait();
      comm.all_reduce(tensor).wait();
      EXPECT_TRUE(at::equal(note, at::zeros({10}, at::kInt)));
    }
    EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 2)));
  });
}

TEST_P(Async, MessagesKeepTheirOrder) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    const int next = (comm.rank() + 1) % 3;
    const int previous = (comm.rank() + 2) % 3;
    std::vector<Tensor> keep;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) {
      keep.push_back(at::full({i * 1000}, i + 100 * comm.rank(), at::kFloat));
      works.push_back(comm.send(keep.back(), next));
    }
    for (int i = 0; i < 40; ++i) {
      Tensor tensor = at::empty({i * 1000});
      comm.recv(tensor, previous).wait();
      EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, i + 100 * previous)));
    }
    for (auto& work : works) {
      work.wait();
    }
  });
}

TEST_P(Async, SeveralThreadsMayWait) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 32; ++i) {
      tensors.push_back(at::full({i * 5000 + 1}, 1.0F));
      works.push_back(comm.all_reduce(tensors.back()));
    }
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = static_cast<size_t>(t); i < works.size(); i += 4) {
          Work work = works[i];
          work.wait();
          wrong += tensors[i][0].item<float>() == 2 ? 0 : 1;
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(Async, AMessageIsTakenWhenSendReturns) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    const Window flag = comm.window(8);
    flag.local().zero_();
    comm.barrier();
    Tensor tensor = at::full({1}, 5.0F);
    if (comm.rank() == 0) {
      comm.send(tensor, 1).wait();
      Tensor seen = at::empty({1}, at::kLong);
      flag.get(seen, 1).wait();
      EXPECT_EQ(seen.item<int64_t>(), 1);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      flag.local(at::kLong, 0, 1).fill_(1);
      comm.recv(tensor, 0).wait();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Async,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace zero::test
