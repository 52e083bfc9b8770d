// Uses libtorch, and passes it a std::string: links only with the right ABI.
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

int main() {
  const at::Tensor tensor = at::ones({4});
  return tensor.toString() == "CPUFloatType" && tensor.numel() == 4 ? 0 : 1;
}
