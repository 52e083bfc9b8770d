// Collectives over several hosts.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/run_hosts.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::comm {
namespace {

using test::error_of;
using test::eventually;
using test::has;
using test::HostRank;
using test::run_hosts;

const std::vector<std::vector<int>> kLayouts{
    {0, 1},
    {0, 0, 1, 1},
    {0, 1, 0, 1, 1}, // unequal, and not in order
    {0, 1, 2},
};
constexpr int64_t kSizes[] = {0, 1, 7, 5'000, 300'001};

// Whole numbers, so that every sum is exact.
at::Tensor data_of(int rank, int64_t numel, at::ScalarType dtype) {
  return (at::arange(numel) % 5 + rank).to(dtype);
}

at::Tensor all_data(int size, int64_t numel, at::ScalarType dtype) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < size; ++rank) {
    all.push_back(data_of(rank, numel, dtype).to(at::kDouble));
  }
  return at::stack(all);
}

at::Tensor own_part(const at::Tensor& tensor, const Communicator& comm) {
  const auto range = chunk_range(tensor.numel(), comm.rank(), comm.size());
  return tensor.narrow(0, range.offset, range.numel);
}

TEST(SeveralHosts, ReduceAsOneDoes) {
  for (const auto& layout : kLayouts) {
    run_hosts(layout, [&](const HostRank& rank) {
      Communicator comm(rank.group);
      for (const auto dtype :
           {at::kFloat, at::kDouble, at::kBFloat16, at::kChar, at::kLong}) {
        for (const int64_t numel : kSizes) {
          const auto all = all_data(comm.size(), numel, dtype);
          const auto sum = all.sum(0).to(dtype);
          at::Tensor tensor = data_of(comm.rank(), numel, dtype);
          comm.all_reduce(tensor).wait();
          EXPECT_TRUE(at::equal(tensor, sum)) << dtype << " " << numel;

          tensor = data_of(comm.rank(), numel, dtype);
          comm.all_reduce(tensor, ReduceOp::max).wait();
          EXPECT_TRUE(at::equal(tensor, all.amax(0).to(dtype)));

          tensor = data_of(comm.rank(), numel, dtype);
          comm.reduce_scatter(tensor).wait();
          EXPECT_TRUE(at::equal(own_part(tensor, comm), own_part(sum, comm)));
          if (dtype == at::kFloat || dtype == at::kLong) {
            tensor = data_of(comm.rank(), numel, dtype);
            comm.all_reduce(tensor, ReduceOp::mean).wait();
            const auto mean = dtype == at::kLong
                ? at::floor_divide(all.sum(0).to(at::kLong), comm.size())
                : (all.sum(0).to(at::kFloat) / comm.size());
            EXPECT_TRUE(at::equal(tensor, mean));
          }
        }
      }
    });
  }
}

TEST(SeveralHosts, MoveDataAsOneDoes) {
  for (const auto& layout : kLayouts) {
    run_hosts(layout, [&](const HostRank& rank) {
      Communicator comm(rank.group);
      const int size = comm.size();
      for (const int64_t numel : kSizes) {
        at::Tensor tensor = at::zeros({numel});
        own_part(tensor, comm).fill_(comm.rank() + 1);
        comm.all_gather(tensor).wait();
        for (int from = 0; from < size; ++from) {
          const auto range = chunk_range(numel, from, size);
          EXPECT_TRUE(tensor.narrow(0, range.offset, range.numel)
                          .eq(from + 1)
                          .all()
                          .item<bool>());
        }
        for (int root = 0; root < size; ++root) {
          tensor = data_of(comm.rank(), numel, at::kFloat);
          comm.broadcast(tensor, root).wait();
          EXPECT_TRUE(at::equal(tensor, data_of(root, numel, at::kFloat)));
        }
        tensor = at::full({numel * size}, comm.rank());
        comm.all_to_all(tensor).wait();
        for (int from = 0; from < size; ++from) {
          EXPECT_TRUE(tensor.narrow(0, numel * from, numel)
                          .eq(from)
                          .all()
                          .item<bool>());
        }
      }
    });
  }
}

TEST(SeveralHosts, SendMessages) {
  run_hosts({0, 1, 0, 1}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    const int size = comm.size();
    for (int distance = 1; distance < size; ++distance) {
      const int to = (comm.rank() + distance) % size;
      const int from = (comm.rank() + size - distance) % size;
      at::Tensor sent = data_of(comm.rank(), 200'000, at::kFloat);
      at::Tensor received = at::zeros({200'000});
      auto sending = comm.send(sent, to);
      comm.recv(received, from).wait();
      sending.wait();
      EXPECT_TRUE(at::equal(received, data_of(from, 200'000, at::kFloat)));
    }
  });
}

TEST(SeveralHosts, DisagreeingRanksAreToldSo) {
  run_hosts({0, 1, 1}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    const std::string text = error_of([&] {
      at::Tensor tensor = at::zeros({comm.rank() == 2 ? 5 : 6});
      comm.all_reduce(tensor).wait();
    });
    EXPECT_TRUE(has(text, "the ranks disagree")) << text;
    EXPECT_TRUE(has(text, "rank 2 called all_reduce(sum, float32, 5")) << text;
  });
}

TEST(SeveralHosts, ARankThatLeavesIsLostToAll) {
  run_hosts({0, 0, 1, 1}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    if (comm.rank() == 3) {
      return;
    }
    at::Tensor tensor = at::zeros({10});
    try {
      comm.all_reduce(tensor).wait();
      FAIL() << "rank 3 is gone";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 3) << lost.what();
    }
  });
}

// What ranks do that go on after losses: those of `leaving`, in this order, are
// lost one after another.
void lose_and_go_on(const HostRank& rank, const std::vector<int>& leaving) {
  Communicator comm(rank.group);
  const int id = comm.rank();
  int expected = comm.size();
  for (const int lost : leaving) {
    if (id == lost) {
      return;
    }
    // Ranks come to it at different times.
    std::this_thread::sleep_for(std::chrono::milliseconds(id * 7 % 20));
    at::Tensor tensor = at::zeros({10});
    EXPECT_THROW(
        for (int i = 0; i < 1000; ++i) { comm.all_reduce(tensor).wait(); },
        PeerLost);
    comm = comm.shrink();
    ASSERT_EQ(comm.size(), --expected);
    for (const int64_t numel : {1, 50'000}) {
      tensor = at::ones({numel});
      comm.all_reduce(tensor).wait();
      EXPECT_TRUE(tensor.eq(expected).all().item<bool>());
    }
    comm.barrier();
  }
}

TEST(SeveralHosts, SurvivorsGoOn) {
  const std::vector<int> two_and_two{0, 0, 1, 1};
  for (const std::vector<int>& leaving : std::vector<std::vector<int>>{
           {3}, {0}, {0, 1}, {2, 3}, {3, 0}, {0, 2, 1}}) {
    SCOPED_TRACE(c10::str("leaving: ", c10::Join(" ", leaving)));
    run_hosts(two_and_two, [&](const HostRank& rank) {
      lose_and_go_on(rank, leaving);
    });
  }
  run_hosts({0, 1, 2}, [](const HostRank& rank) {
    lose_and_go_on(rank, {1, 0});
  });
}

// The lowest ranks leave while the others already agree.
TEST(SeveralHosts, AgreeThoughWhoCoordinatesIsLost) {
  for (int delay = 0; delay < 40; delay += 2) {
    run_hosts({0, 1, 0, 1, 2}, [&](const HostRank& rank) {
      Communicator comm(rank.group);
      if (comm.rank() < 2) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(delay * (1 + comm.rank())));
        return;
      }
      auto rest = comm.shrink();
      ASSERT_EQ(rest.size(), 3);
      at::Tensor tensor = at::ones({5});
      rest.all_reduce(tensor).wait();
      EXPECT_TRUE(tensor.eq(3).all().item<bool>());
      rest.barrier();
    });
  }
}

// Both sides live, and only one of them goes on.
TEST(SeveralHosts, OfThoseOutOfReachTheFewerDoNotGoOn) {
  CommSettings settings;
  settings.timeout_seconds = 0.3;
  for (const std::vector<int>& layout :
       std::vector<std::vector<int>>{{0, 1}, {0, 0, 1}, {1, 0, 0}}) {
    const int alone = layout[0] == 0 ? static_cast<int>(layout.size()) - 1 : 0;
    std::atomic<size_t> num_ready = 0;
    run_hosts(
        layout,
        [&](const HostRank& rank) {
          Communicator comm(rank.group);
          at::Tensor tensor = at::zeros({10});
          comm.all_reduce(tensor).wait();
          ++num_ready;
          ASSERT_TRUE(eventually([&] { return num_ready == layout.size(); }));
          rank.board.mute(alone);
          EXPECT_THROW(
              for (int i = 0; i < 1000;
                   ++i) { comm.all_reduce(tensor).wait(); },
              PeerLost);
          if (comm.rank() == alone) {
            const std::string text = error_of([&] { comm.shrink(); });
            EXPECT_TRUE(has(text, "out of reach")) << text;
            return;
          }
          auto rest = comm.shrink();
          EXPECT_EQ(rest.size(), comm.size() - 1);
          tensor = at::ones({10});
          rest.all_reduce(tensor).wait();
          EXPECT_TRUE(tensor.eq(rest.size()).all().item<bool>());
          rest.barrier();
        },
        settings);
  }
}

TEST(SeveralHosts, AHostOutOfReachIsLostAfterItsHeartbeat) {
  CommSettings settings;
  settings.timeout_seconds = 0.3;
  run_hosts(
      {0, 1},
      [](const HostRank& rank) {
        Communicator comm(rank.group);
        at::Tensor tensor = at::zeros({10});
        const auto train = [&] {
          for (int step = 0; step < 1000; ++step) {
            comm.all_reduce(tensor).wait();
            if (step == 20 && comm.rank() == 0) {
              rank.board.cut(1);
            }
          }
        };
        EXPECT_THROW(train(), PeerLost);
      },
      settings);
}

} // namespace
} // namespace zero::comm
