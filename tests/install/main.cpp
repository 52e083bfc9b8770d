// Sums ones over the ranks: all that a first program with libzero does.
#include <ATen/ops/ones.h>
#include <zero/zero.h>

#include <iostream>

int main() {
  zero::World world = zero::init();
  const at::Tensor tensor = at::ones({4});
  world.communicator().all_reduce(tensor).wait();

  const double sum = tensor.sum().item<double>();
  std::cout << "rank " << world.rank() << " of " << world.size() << ": sum "
            << sum << '\n';
  return sum == 4.0 * world.size() ? 0 : 1;
}
