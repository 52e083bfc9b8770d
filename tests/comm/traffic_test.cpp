// The bytes that are counted are those of the formulas in
// docs/communication.md.
#include <algorithm>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Traffic : public ::testing::TestWithParam<int> {};

TEST_P(Traffic, BytesAreThoseOfTheFormula) {
  run_ranks(Backend::local, GetParam(), [](World world) {
    auto comm = world.communicator();
    const int64_t n = comm.size();
    for (const int64_t numel : {0, 1, 1000, 50'021, 400'000}) {
      const int64_t bytes = numel * 4;
      const int64_t chunk =
          chunk_range(numel, comm.rank(), comm.size()).numel * 4;
      Tensor tensor = at::ones({numel});
      Tensor output = at::empty({n * chunk / 4});
      const auto received = [&](CommOp op, Work work) {
        work.wait();
        const auto traffic = comm.traffic(op);
        EXPECT_EQ(traffic.calls, 1);
        comm.reset_traffic();
        return traffic.bytes_received;
      };
      // Small ones are read whole, by everybody.
      const int64_t all_reduce =
          bytes <= 16384 ? (n - 1) * bytes : (n - 1) * chunk + bytes - chunk;
      comm.reset_traffic();
      EXPECT_EQ(
          received(CommOp::all_reduce, comm.all_reduce(tensor)),
          n == 1 ? 0 : all_reduce);
      EXPECT_EQ(
          received(CommOp::reduce_scatter, comm.reduce_scatter(tensor)),
          (n - 1) * chunk);
      EXPECT_EQ(
          received(CommOp::all_gather, comm.all_gather(tensor)), bytes - chunk);
      EXPECT_EQ(
          received(CommOp::broadcast, comm.broadcast(tensor)),
          comm.rank() == 0 ? 0 : bytes);
      EXPECT_EQ(
          received(CommOp::all_to_all, comm.all_to_all(output, tensor)),
          (n - 1) * chunk);
    }
  });
}

TEST_P(Traffic, LargeSumsCostTwoBuffersForEachOtherRank) {
  // 2 P (N-1) elements, summed over the ranks.
  run_ranks(Backend::local, GetParam(), [](World world) {
    auto comm = world.communicator();
    const int64_t numel = 123'457;
    comm.all_reduce(at::ones({numel})).wait();
    Tensor total = at::empty({1}, at::kLong);
    total.fill_(comm.traffic(CommOp::all_reduce).bytes_received);
    comm.all_reduce(total).wait();
    EXPECT_EQ(total.item<int64_t>(), 2 * numel * 4 * (comm.size() - 1));
  });
}

TEST_P(Traffic, InPlaceCostsTheSame) {
  run_ranks(Backend::local, GetParam(), [](World world) {
    auto comm = world.communicator();
    const int64_t numel = 400'003;
    const int64_t chunk = chunk_range(numel, comm.rank(), comm.size()).numel;
    const Window window = comm.window(numel * 4);
    Tensor tensor = window.local(at::kFloat, 0, numel).zero_();
    comm.all_reduce(tensor).wait();
    EXPECT_EQ(
        comm.traffic(CommOp::all_reduce).bytes_received,
        4 * ((comm.size() - 1) * chunk + numel - chunk));
    comm.reduce_scatter(tensor).wait();
    EXPECT_EQ(
        comm.traffic(CommOp::reduce_scatter).bytes_received,
        4 * (comm.size() - 1) * chunk);
    comm.all_gather(tensor).wait();
    EXPECT_EQ(
        comm.traffic(CommOp::all_gather).bytes_received, 4 * (numel - chunk));
    EXPECT_EQ(comm.traffic(CommOp::all_gather).calls, 1);
    comm.broadcast(tensor).wait();
    EXPECT_EQ(
        comm.traffic(CommOp::broadcast).bytes_received,
        comm.rank() == 0 ? 0 : 4 * numel);
  });
}

TEST_P(Traffic, MessagesCountWhereTheyArrive) {
  run_ranks(Backend::local, std::max(2, GetParam()), [](World world) {
    auto comm = world.communicator();
    if (comm.rank() == 0) {
      comm.send(at::ones({1000}), 1).wait();
      EXPECT_EQ(comm.traffic(CommOp::send).bytes_received, 0);
    } else if (comm.rank() == 1) {
      comm.recv(at::ones({1000}), 0).wait();
      EXPECT_EQ(comm.traffic(CommOp::recv).bytes_received, 4000);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Traffic, ::testing::Values(1, 2, 3, 5));

} // namespace
} // namespace zero::test
