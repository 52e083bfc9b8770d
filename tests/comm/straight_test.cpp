// Large collectives of ranks that are each alone on their host.
#include "comm/shm/straight.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <zero/error.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "comm/reduce_kernels.h"
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

const std::vector<std::vector<int>> kApart{{0, 1}, {0, 1, 2}, {2, 0, 3, 1}};
// From where it begins to several parts, whole and not.
constexpr int64_t kStraightSizes[] = {20'000, 262'144, 300'001, 900'001};

// Bits that tell in which order they were added up.
at::Tensor noise_of(int rank, int64_t numel, at::ScalarType dtype) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  at::Tensor tensor = at::empty({numel}, at::kFloat);
  auto* data = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < numel; ++i) {
    data[i] = static_cast<float>(random() % 20'001) / 97.F - 100.F;
  }
  return tensor.to(dtype);
}

// One element at a time, in the order of the ranks.
at::Tensor sum_of(
    ReduceOp op,
    const std::vector<at::Tensor>& all,
    int64_t numel) {
  at::Tensor result = at::empty_like(all.front());
  std::vector<const void*> inputs;
  for (const at::Tensor& tensor : all) {
    inputs.push_back(tensor.const_data_ptr());
  }
  reduce_scalar(
      op,
      result.scalar_type(),
      result.data_ptr(),
      inputs.data(),
      static_cast<int>(inputs.size()),
      numel);
  return result;
}

at::Tensor chunk_of(const at::Tensor& tensor, int rank, int size) {
  const auto range = chunk_range(tensor.numel(), rank, size);
  return tensor.narrow(0, range.offset, range.numel);
}

TEST(Straight, SumsHaveTheBitsOfTheirOrder) {
  for (const auto& layout : kApart) {
    run_hosts(layout, [&](const HostRank& rank) {
      Communicator comm(rank.group);
      ASSERT_TRUE(goes_straight(rank.group->context(), 80'000));
      for (const auto dtype :
           {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar}) {
        for (const int64_t numel : kStraightSizes) {
          std::vector<at::Tensor> all;
          for (int from = 0; from < comm.size(); ++from) {
            all.push_back(noise_of(from, numel, dtype));
          }
          const at::Tensor own = all[static_cast<size_t>(comm.rank())];
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
            const at::Tensor expected = sum_of(op, all, numel);
            at::Tensor tensor = own.clone();
            comm.all_reduce(tensor, op).wait();
            EXPECT_TRUE(at::equal(tensor, expected)) << dtype << " " << numel;

            tensor = own.clone();
            const at::Tensor part =
                at::empty_like(chunk_of(tensor, comm.rank(), comm.size()));
            comm.reduce_scatter(part, tensor, op).wait();
            EXPECT_TRUE(
                at::equal(part, chunk_of(expected, comm.rank(), comm.size())));
            EXPECT_TRUE(at::equal(tensor, own)); // the others' are as before
          }
        }
      }
    });
  }
}

TEST(Straight, DataComesWhereItBelongs) {
  for (const auto& layout : kApart) {
    run_hosts(layout, [&](const HostRank& rank) {
      Communicator comm(rank.group);
      const int size = comm.size();
      for (const int64_t numel : kStraightSizes) {
        std::vector<at::Tensor> chunks;
        for (int from = 0; from < size; ++from) {
          chunks.push_back(
              chunk_of(noise_of(from, numel, at::kFloat), from, size));
        }
        const at::Tensor whole = at::empty({numel});
        const at::Tensor own = chunks[static_cast<size_t>(comm.rank())].clone();
        comm.all_gather(whole, own).wait();
        EXPECT_TRUE(at::equal(whole, at::cat(chunks)));

        for (int root = 0; root < size; ++root) {
          const at::Tensor tensor = noise_of(comm.rank(), numel, at::kFloat);
          comm.broadcast(tensor, root).wait();
          EXPECT_TRUE(at::equal(tensor, noise_of(root, numel, at::kFloat)));
        }

        std::vector<at::Tensor> mine;
        for (int from = 0; from < size; ++from) {
          mine.push_back(noise_of(from, numel * size, at::kFloat)
                             .narrow(0, comm.rank() * numel, numel));
        }
        // Some of the ranks in place.
        at::Tensor input = noise_of(comm.rank(), numel * size, at::kFloat);
        at::Tensor output =
            comm.rank() % 2 == 0 ? input : at::empty_like(input);
        comm.all_to_all(output, input).wait();
        EXPECT_TRUE(at::equal(output, at::cat(mine)));
      }
    });
  }
}

TEST(Straight, BytesAreCountedAsTheTableHasThem) {
  run_hosts({0, 1, 2}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    constexpr int64_t kNumel = 100'001;
    const auto received = [&](CommOp op) {
      return static_cast<int64_t>(comm.traffic(op).bytes_received);
    };
    for (const auto dtype : {at::kFloat, at::kHalf}) {
      comm.reset_traffic();
      at::Tensor tensor = noise_of(comm.rank(), kNumel, dtype);
      const auto whole = static_cast<int64_t>(tensor.nbytes());
      const auto chunk = static_cast<int64_t>(
          chunk_of(tensor, comm.rank(), comm.size()).nbytes());
      comm.all_reduce(tensor).wait();
      EXPECT_EQ(received(CommOp::all_reduce), 2 * chunk + whole - chunk);
      comm.reduce_scatter(tensor).wait();
      EXPECT_EQ(received(CommOp::reduce_scatter), 2 * chunk);
      comm.all_gather(tensor).wait();
      EXPECT_EQ(received(CommOp::all_gather), whole - chunk);
      comm.broadcast(tensor, 1).wait();
      EXPECT_EQ(received(CommOp::broadcast), comm.rank() == 1 ? 0 : whole);
      comm.barrier();
    }
  });
}

// Nothing says in which order ranks wait for those of different communicators.
TEST(Straight, CommunicatorsDoNotWaitForEachOther) {
  run_hosts({0, 1}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    Communicator other = comm.split(0, comm.rank());
    const at::Tensor one = noise_of(comm.rank(), 500'000, at::kFloat);
    const at::Tensor two = noise_of(comm.rank(), 500'000, at::kFloat);
    if (comm.rank() == 0) {
      auto first = comm.all_reduce(one);
      auto second = other.all_reduce(two);
      first.wait();
      second.wait();
    } else {
      other.all_reduce(two).wait();
      comm.all_reduce(one).wait();
    }
    EXPECT_TRUE(at::equal(one, two));
  });
}

TEST(Straight, ManyAreUnderWayAtOnce) {
  run_hosts({0, 1, 2}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) {
      tensors.push_back(at::full({20'000 + 5'000 * i}, comm.rank() + i));
      works.push_back(comm.all_reduce(tensors.back()));
    }
    for (int i = 39; i >= 0; --i) {
      works[static_cast<size_t>(i)].wait();
      EXPECT_TRUE(
          tensors[static_cast<size_t>(i)].eq(3 * i + 3).all().item<bool>());
    }
    comm.barrier();
  });
}

TEST(Straight, DisagreeingRanksAreToldSoAndKeepTheirTensors) {
  run_hosts({0, 1, 2}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    const at::Tensor tensor =
        at::full({comm.rank() == 2 ? 500'000 : 600'000}, comm.rank());
    const std::string text =
        error_of([&] { comm.broadcast(tensor, 1).wait(); });
    EXPECT_TRUE(has(text, "rank 2 called broadcast(")) << text;
    EXPECT_TRUE(tensor.eq(comm.rank()).all().item<bool>());
  });
}

// What a rank whose operation has failed writes into its tensor stays there.
void expect_to_stay(const at::Tensor& tensor) {
  tensor.fill_(-7);
  for (int look = 0; look < 20; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(tensor.eq(-7).all().item<bool>());
  }
}

enum class StraightOp {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all
};

void run_straight(Communicator& comm, StraightOp op, const at::Tensor& tensor) {
  switch (op) {
    case StraightOp::all_reduce:
      return comm.all_reduce(tensor).wait();
    case StraightOp::reduce_scatter:
      return comm.reduce_scatter(tensor).wait();
    case StraightOp::all_gather:
      return comm.all_gather(tensor).wait();
    case StraightOp::broadcast:
      return comm.broadcast(tensor, 1).wait();
    case StraightOp::all_to_all:
      return comm.all_to_all(tensor).wait();
  }
}

// Rank 1 falls silent in the middle. The others lose it, and only it; their
// tensors are theirs; they go on.
TEST(Straight, ALossInTheMiddleLeavesTensorsAlone) {
  CommSettings settings;
  settings.timeout_seconds = 0.3;
  for (const StraightOp op :
       {StraightOp::all_reduce,
        StraightOp::reduce_scatter,
        StraightOp::all_gather,
        StraightOp::broadcast,
        StraightOp::all_to_all}) {
    for (const int parts : {1, 3}) {
      SCOPED_TRACE(c10::str("op ", static_cast<int>(op), ", ", parts));
      run_hosts(
          {0, 1, 2},
          [&](const HostRank& rank) {
            Communicator comm(rank.group);
            comm.barrier();
            rank.board.mute_after(1, parts);
            const at::Tensor tensor = at::ones({3'000'000});
            EXPECT_THROW(
                for (int i = 0; i < 100;
                     ++i) { run_straight(comm, op, tensor); },
                PeerLost);
            expect_to_stay(tensor);
            if (comm.rank() == 1) {
              EXPECT_THROW(comm.shrink(), CommError);
              return;
            }
            auto rest = comm.shrink();
            ASSERT_EQ(rest.size(), 2);
            tensor.fill_(1);
            rest.all_reduce(tensor).wait();
            EXPECT_TRUE(tensor.eq(2).all().item<bool>());
            rest.barrier();
          },
          settings);
    }
  }
}

// Rank 2 is gone. Rank 1 lives, and comes only when rank 0 has been told: what
// rank 0 awaits of it is taken back without it.
TEST(Straight, WhoComesLateKeepsNobodyWaiting) {
  std::atomic<bool> is_told = false;
  run_hosts({0, 1, 2}, [&](const HostRank& rank) {
    Communicator comm(rank.group);
    comm.barrier();
    if (comm.rank() == 2) {
      return;
    }
    const at::Tensor tensor = at::ones({1'000'000});
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return is_told.load(); }));
    }
    EXPECT_THROW(comm.all_gather(tensor).wait(), PeerLost);
    is_told = true;
    expect_to_stay(tensor);
    auto rest = comm.shrink();
    tensor.fill_(1);
    rest.all_reduce(tensor).wait();
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
    rest.barrier();
  });
}

// MPI is in the middle of what it receives and does not end it: it is not
// called any more, which all others are lost by.
TEST(Straight, WhatMpiDoesNotLetGoOfItDoesNotWrite) {
  CommSettings settings;
  settings.timeout_seconds = 0.3;
  run_hosts(
      {0, 1, 2},
      [&](const HostRank& rank) {
        Communicator comm(rank.group);
        comm.barrier();
        rank.board.get_stuck();
        rank.board.mute_after(1, 2);
        const at::Tensor tensor = at::ones({3'000'000});
        EXPECT_THROW(
            for (int i = 0; i < 100; ++i) { comm.all_gather(tensor).wait(); },
            PeerLost);
        rank.board.unmute();
        expect_to_stay(tensor);
      },
      settings);
}

// Nobody waits for it, and its communicator is dropped.
TEST(Straight, WhatIsDroppedIsGivenUp) {
  run_hosts({0, 1}, [](const HostRank& rank) {
    Communicator comm(rank.group);
    Communicator other = comm.split(0, comm.rank());
    if (comm.rank() == 0) {
      const at::Tensor tensor = at::ones({1'000'000});
      {
        Communicator dropped = std::move(other);
        auto work = dropped.all_gather(tensor);
      }
      expect_to_stay(tensor);
    } else {
      comm.barrier();
      EXPECT_THROW(other.all_gather(at::ones({1'000'000})).wait(), PeerLost);
      return;
    }
    comm.barrier();
  });
}

} // namespace
} // namespace zero::comm
