#include "cli/bench/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"

namespace zero::cli {

namespace {

struct MeasuredCollective {
  std::string op;
  std::function<void()> run;
  std::vector<double> seconds; // by round
};

constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 5000;

// One turn of each operation; the ranks start it together.
void run_round(
    Communicator& comm,
    std::vector<MeasuredCollective>& operations) {
  for (auto& operation : operations) {
    comm.barrier();
    const auto start = base::Clock::now();
    operation.run();
    operation.seconds.push_back(base::seconds_since(start));
  }
}

// How many rounds fit the time; rank 0's opinion counts.
int num_rounds(
    Communicator& comm,
    std::vector<MeasuredCollective>& operations,
    double seconds) {
  run_round(comm, operations); // the first one faults pages in
  const auto start = base::Clock::now();
  run_round(comm, operations);
  const double one = std::max(base::seconds_since(start), 1e-7);
  at::Tensor rounds = at::zeros({1}, at::kLong);
  rounds.fill_(static_cast<int64_t>(std::clamp(
      seconds / one,
      static_cast<double>(kMinRounds),
      static_cast<double>(kMaxRounds))));
  comm.broadcast(rounds).wait();
  for (auto& operation : operations) {
    operation.seconds.clear();
  }
  return static_cast<int>(rounds.item<int64_t>());
}

double median_of_slowest(Communicator& comm, std::vector<double> seconds) {
  const auto count = static_cast<int64_t>(seconds.size());
  at::Tensor slowest = at::zeros({count}, at::kDouble);
  auto* data = slowest.mutable_data_ptr<double>();
  std::copy(seconds.begin(), seconds.end(), data);
  comm.all_reduce(slowest, ReduceOp::max).wait();
  std::nth_element(data, data + count / 2, data + count);
  return data[count / 2];
}

} // namespace

void bench_collectives(
    World& world,
    const CollectivesBench& bench,
    const std::function<void(const BenchRow&)>& report) {
  Communicator comm = world.communicator();
  for (const int64_t asked : bench.bytes) {
    // Rounded up so that it divides among the ranks.
    const int64_t unit = int64_t{4} * comm.size();
    const int64_t numel = (asked + unit - 1) / unit * comm.size();
    const int64_t bytes = 4 * numel;
    const auto make_tensor = [&] {
      return bench.ordinary_memory
          ? at::empty({numel})
          : comm.window(numel * 4).local(at::kFloat, 0, numel);
    };
    // Zeros, whose sums stay zeros however often; written, so that the pages
    // are there.
    const at::Tensor tensor = make_tensor().zero_();
    const at::Tensor copy = at::empty({numel}).zero_();
    const at::Tensor original = at::empty({numel}).zero_();
    std::vector<MeasuredCollective> operations{
        {"memcpy",
         [&] {
           std::memcpy(
               copy.mutable_data_ptr(),
               original.const_data_ptr(),
               original.nbytes());
         },
         {}},
        {"all_reduce", [&] { comm.all_reduce(tensor).wait(); }, {}},
        {"reduce_scatter", [&] { comm.reduce_scatter(tensor).wait(); }, {}},
        {"all_gather", [&] { comm.all_gather(tensor).wait(); }, {}},
        {"broadcast", [&] { comm.broadcast(tensor).wait(); }, {}},
        {"all_to_all", [&] { comm.all_to_all(tensor).wait(); }, {}},
        {"barrier", [&] { comm.barrier(); }, {}},
    };
    const int rounds = num_rounds(comm, operations, bench.seconds_per_size);
    for (int round = 0; round < rounds; ++round) {
      run_round(comm, operations);
    }
    for (const auto& operation : operations) {
      const double seconds = median_of_slowest(comm, operation.seconds);
      if (comm.rank() == 0) {
        report({bench.backend, operation.op, comm.size(), bytes, seconds});
      }
    }
  }
}

} // namespace zero::cli
