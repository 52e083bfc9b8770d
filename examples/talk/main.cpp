// Four ranks talk: a sum of everybody's tensor, then one rank reads another's
// memory while its owner computes and calls nothing.
//
//   zero run -n 4 build/bin/talk
#include <ATen/ATen.h>
#include <zero/zero.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

// Lines come in rank order: each rank waits for its turn.
template <class... Arguments>
void print_in_order(
    zero::World& world,
    const char* format,
    Arguments... arguments) {
  for (int turn = 0; turn < world.size(); ++turn) {
    if (turn == world.rank()) {
      std::printf(format, arguments...);
      std::fflush(stdout);
    }
    world.barrier();
  }
}

void sum_everybodys_tensor(zero::World& world) {
  auto comm = world.communicator();
  const double mine = world.rank() + 1;
  at::Tensor tensor = at::full({1'000'000}, mine);
  world.barrier();
  const auto start = Clock::now();
  comm.all_reduce(tensor).wait();
  print_in_order(
      world,
      "all_reduce: gave %.0f, got the sum %.0f of 1,000,000 floats in "
      "%.2f ms\n",
      mine,
      tensor[0].item<double>(),
      milliseconds_since(start));
}

// Counts until told to stop, writing where others can read it.
void compute_for_a_second(at::Tensor& counter) {
  auto* value = counter.mutable_data_ptr<double>();
  const auto start = Clock::now();
  while (milliseconds_since(start) < 1000) {
    *static_cast<volatile double*>(value) = std::floor(*value) + 1;
  }
}

void read_a_busy_rank(zero::World& world) {
  auto comm = world.communicator();
  const zero::Window window = comm.window(sizeof(double));
  at::Tensor counter = window.local(at::kDouble, 0, 1);
  counter.zero_();
  world.barrier();
  const int busy = world.size() - 1;
  if (world.rank() == busy) {
    compute_for_a_second(counter);
    std::printf(
        "get: computed for a second, counted to %.0f, called nothing\n",
        counter.item<double>());
  } else {
    at::Tensor seen = at::empty({1}, at::kDouble);
    const auto start = Clock::now();
    while (milliseconds_since(start) < 200 * (world.rank() + 1)) {
    }
    window.get(seen, busy).wait();
    std::printf(
        "get: after %d ms rank %d had counted to %.0f\n",
        200 * (world.rank() + 1),
        busy,
        seen.item<double>());
  }
  std::fflush(stdout);
  world.barrier();
}

} // namespace

int main() {
  try {
    zero::World world = zero::init();
    sum_everybodys_tensor(world);
    if (world.size() > 1) {
      read_a_busy_rank(world);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
