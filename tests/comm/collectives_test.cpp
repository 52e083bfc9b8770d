// Every collective, on both backends, with every type, many numbers of ranks,
// and sizes that do not divide: against sums that this file takes itself.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

const std::vector<at::ScalarType> kTypes{
    at::kFloat,
    at::kDouble,
    at::kBFloat16,
    at::kHalf,
    at::kChar,
    at::kInt,
    at::kLong,
    at::kByte};

// None, fewer than ranks, not divisible, more than a piece, several pieces.
const std::vector<int64_t> kSizes{0, 1, 3, 17, 4099, 150'001, 300'011};

// Small whole numbers, so that every type holds every sum exactly. They repeat
// every kPeriod elements, so that a test needs to reduce only so many.
constexpr int64_t kPeriod = 5;

double value(int rank, int64_t i) {
  return static_cast<double>((i * 7 + rank * 3) % kPeriod);
}

Tensor repeated(const Tensor& period, int64_t numel) {
  return period.repeat({numel / kPeriod + 1}).narrow(0, 0, numel).clone();
}

Tensor values(int rank, int64_t numel, at::ScalarType dtype) {
  Tensor period = at::empty({kPeriod}, at::kDouble);
  for (int64_t i = 0; i < kPeriod; ++i) {
    period[i] = value(rank, i);
  }
  return repeated(period.to(dtype), numel);
}

Tensor reduced(ReduceOp op, int size, int64_t numel, at::ScalarType dtype) {
  Tensor period = at::empty({kPeriod}, at::kDouble);
  for (int64_t i = 0; i < kPeriod; ++i) {
    double result = value(0, i);
    for (int rank = 1; rank < size; ++rank) {
      const double other = value(rank, i);
      result = op == ReduceOp::max ? std::max(result, other)
          : op == ReduceOp::min    ? std::min(result, other)
                                   : result + other;
    }
    if (op == ReduceOp::mean) {
      result = !at::isFloatingType(dtype) ? std::trunc(result / size)
          : dtype == at::kDouble
          ? result / size
          // Halves are divided as the float32 they were summed in.
          : static_cast<float>(result) / static_cast<float>(size);
    }
    period[i] = result;
  }
  return repeated(period.to(dtype), numel);
}

class Collectives : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  void run(const Body& body) {
    run_ranks(std::get<0>(GetParam()), std::get<1>(GetParam()), body);
  }
  // Calls check(communicator, type, size) for all of them in one world.
  template <class Check>
  void for_all(Check check) {
    run([&](World world) {
      for (const auto dtype : kTypes) {
        for (const int64_t numel : kSizes) {
          SCOPED_TRACE(c10::str(dtype, " ", numel));
          check(world.communicator(), dtype, numel);
        }
      }
    });
  }
};

TEST_P(Collectives, AllReduceIsTheReductionOnEveryRank) {
  for_all([](Communicator comm, at::ScalarType dtype, int64_t numel) {
    for (const auto op :
         {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
      Tensor tensor = values(comm.rank(), numel, dtype);
      comm.all_reduce(tensor, op).wait();
      EXPECT_TRUE(at::equal(tensor, reduced(op, comm.size(), numel, dtype)));
    }
  });
}

TEST_P(Collectives, ReduceScatterLeavesTheRestAlone) {
  for_all([](Communicator comm, at::ScalarType dtype, int64_t numel) {
    const Tensor before = values(comm.rank(), numel, dtype);
    const Tensor sum = reduced(ReduceOp::sum, comm.size(), numel, dtype);
    const auto own = chunk_range(numel, comm.rank(), comm.size());
    Tensor expected = before.clone();
    expected.narrow(0, own.offset, own.numel)
        .copy_(sum.narrow(0, own.offset, own.numel));

    Tensor in_place = before.clone();
    comm.reduce_scatter(in_place).wait();
    EXPECT_TRUE(at::equal(in_place, expected));

    Tensor output = at::empty({own.numel}, dtype);
    comm.reduce_scatter(output, before).wait();
    EXPECT_TRUE(at::equal(output, expected.narrow(0, own.offset, own.numel)));
  });
}

TEST_P(Collectives, AllGatherBringsEveryChunk) {
  for_all([](Communicator comm, at::ScalarType dtype, int64_t numel) {
    Tensor expected = at::empty({numel}, dtype);
    for (int rank = 0; rank < comm.size(); ++rank) {
      const auto chunk = chunk_range(numel, rank, comm.size());
      expected.narrow(0, chunk.offset, chunk.numel)
          .copy_(
              values(rank, numel, dtype).narrow(0, chunk.offset, chunk.numel));
    }
    const auto own = chunk_range(numel, comm.rank(), comm.size());
    Tensor in_place = values(comm.rank(), numel, dtype);
    const Tensor shard = in_place.narrow(0, own.offset, own.numel).clone();
    comm.all_gather(in_place).wait();
    EXPECT_TRUE(at::equal(in_place, expected));

    Tensor output = at::zeros({numel}, dtype);
    comm.all_gather(output, shard).wait();
    EXPECT_TRUE(at::equal(output, expected));
  });
}

TEST_P(Collectives, BroadcastComesFromAnyRoot) {
  for_all([](Communicator comm, at::ScalarType dtype, int64_t numel) {
    for (const int root : {0, comm.size() - 1}) {
      Tensor tensor = values(comm.rank(), numel, dtype);
      comm.broadcast(tensor, root).wait();
      EXPECT_TRUE(at::equal(tensor, values(root, numel, dtype)));
    }
  });
}

TEST_P(Collectives, AllToAllTransposesChunks) {
  for_all([](Communicator comm, at::ScalarType dtype, int64_t numel) {
    const auto own = chunk_range(numel, comm.rank(), comm.size());
    std::vector<Tensor> parts;
    for (int rank = 0; rank < comm.size(); ++rank) {
      parts.push_back(
          values(rank, numel, dtype).narrow(0, own.offset, own.numel));
    }
    const Tensor expected = at::cat(parts);
    Tensor input = values(comm.rank(), numel, dtype);
    Tensor output = at::zeros({own.numel * comm.size()}, dtype);
    comm.all_to_all(output, input).wait();
    EXPECT_TRUE(at::equal(output, expected));
    if (numel % comm.size() == 0) {
      comm.all_to_all(input).wait();
      EXPECT_TRUE(at::equal(input, expected));
    }
  });
}

TEST_P(Collectives, NobodyLeavesABarrierBeforeAllHaveCome) {
  run([](World world) {
    auto comm = world.communicator();
    const Window window = comm.window(8);
    Tensor own = window.local(at::kLong, 0, 1);
    own.zero_();
    comm.barrier();
    for (int64_t round = 1; round <= 50; ++round) {
      own.fill_(round);
      comm.barrier();
      for (int rank = 0; rank < comm.size(); ++rank) {
        Tensor seen = at::empty({1}, at::kLong);
        window.get(seen, rank).wait();
        EXPECT_GE(seen.item<int64_t>(), round);
      }
    }
  });
}

TEST_P(Collectives, SumsAreTakenInRankOrder) {
  run([](World world) {
    auto comm = world.communicator();
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      for (const int64_t numel : {5, 1000, 70'001}) {
        // Of sizes so different that another order gives other bits.
        const auto noise = [&](int rank) {
          Tensor tensor = at::empty({numel}, at::kDouble);
          auto* data = tensor.mutable_data_ptr<double>();
          for (int64_t i = 0; i < numel; ++i) {
            const auto bits = static_cast<uint32_t>(
                (i + 1) * 2654435761U * static_cast<uint32_t>(rank + 1));
            data[i] = (bits % 2003 - 1001.0) * (bits % 7 == 0 ? 1 : 1e-3);
          }
          return tensor.to(dtype);
        };
        const bool half = dtype == at::kBFloat16 || dtype == at::kHalf;
        const auto wide = half ? at::kFloat : dtype;
        Tensor expected = noise(0).to(wide);
        for (int rank = 1; rank < comm.size(); ++rank) {
          expected = expected + noise(rank).to(wide);
        }
        Tensor tensor = noise(comm.rank());
        comm.all_reduce(tensor).wait();
        EXPECT_TRUE(at::equal(tensor, expected.to(dtype)));
        Tensor scattered = noise(comm.rank());
        comm.reduce_scatter(scattered).wait();
        const auto own = chunk_range(numel, comm.rank(), comm.size());
        EXPECT_TRUE(at::equal(
            scattered.narrow(0, own.offset, own.numel),
            tensor.narrow(0, own.offset, own.numel)));
      }
    }
  });
}

// Tensors in a window are read where they are, if every rank's is in one.
TEST_P(Collectives, InPlaceGivesTheSameAsThroughSlots) {
  run([](World world) {
    auto comm = world.communicator();
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      for (const int64_t numel : {100'001, 700'003}) {
        SCOPED_TRACE(c10::str(dtype, " ", numel));
        const auto element = static_cast<int64_t>(c10::elementSize(dtype));
        // Each rank's tensor is elsewhere in its window.
        const int64_t offset = 64 * comm.rank();
        const Window window = comm.window(offset + numel * element);
        const auto own = chunk_range(numel, comm.rank(), comm.size());
        for (const int num_inside : {comm.size(), comm.size() - 1}) {
          const auto make = [&] {
            Tensor tensor = comm.rank() < num_inside
                ? window.local(dtype, offset, numel)
                : at::empty({numel}, dtype);
            return tensor.copy_(values(comm.rank(), numel, dtype));
          };
          const Tensor sum = reduced(ReduceOp::sum, comm.size(), numel, dtype);
          Tensor tensor = make();
          comm.all_reduce(tensor).wait();
          EXPECT_TRUE(at::equal(tensor, sum));

          tensor = make(); // nobody reads it any more
          comm.reduce_scatter(tensor).wait();
          EXPECT_TRUE(at::equal(
              tensor.narrow(0, own.offset, own.numel),
              sum.narrow(0, own.offset, own.numel)));
          comm.all_gather(tensor).wait();
          EXPECT_TRUE(at::equal(tensor, sum));

          tensor = make();
          comm.broadcast(tensor, comm.size() - 1).wait();
          EXPECT_TRUE(at::equal(tensor, values(comm.size() - 1, numel, dtype)));
        }
      }
    }
  });
}

TEST_P(Collectives, ANanReachesEveryRank) {
  run([](World world) {
    auto comm = world.communicator();
    for (const auto op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum}) {
      for (int where = 0; where < comm.size(); ++where) {
        Tensor tensor =
            at::full({3}, comm.rank() == where ? NAN : 1.0, at::kFloat);
        comm.all_reduce(tensor, op).wait();
        EXPECT_TRUE(tensor.isnan().all().item<bool>());
      }
    }
  });
}

// Under a sanitizer everything takes ten times as long, and a few ranks race as
// well as many.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const auto kNumRanks = ::testing::Values(2, 3);
#else
const auto kNumRanks = ::testing::Values(1, 2, 3, 4, 8);
#endif

INSTANTIATE_TEST_SUITE_P(
    World,
    Collectives,
    ::testing::Combine(
        ::testing::Values(Backend::local, Backend::shm),
        kNumRanks),
    [](const auto& info) {
      return c10::str(
          name_of(std::get<0>(info.param)), std::get<1>(info.param));
    });

} // namespace
} // namespace zero::test
