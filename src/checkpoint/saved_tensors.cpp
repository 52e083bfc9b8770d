#include "checkpoint/saved_tensors.h"

namespace zero::checkpoint {

int64_t SavedTensor::numel() const {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    product *= size;
  }
  return product;
}

int64_t SavedTensor::element_bytes() const {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

int64_t SavedTensor::bytes() const {
  return numel() * element_bytes();
}

std::vector<SavedTensor> weights_of(const Manifest& manifest) {
  std::vector<SavedTensor> tensors;
  for (const auto& parameter : manifest.parameters) {
    const std::string& name = parameter.names.front();
    tensors.push_back(
        {parameter_key(name),
         name,
         parameter.dtype,
         parameter.sizes,
         parameter.strides});
  }
  for (const auto& buffer : manifest.buffers) {
    tensors.push_back(
        {buffer_key(buffer.name),
         buffer.name,
         buffer.dtype,
         buffer.sizes,
         /*strides=*/{}});
  }
  return tensors;
}

std::vector<SavedTensor> tensors_of(const Manifest& manifest) {
  auto tensors = weights_of(manifest);
  for (int state = 0; state < manifest.num_states; ++state) {
    for (const auto& parameter : manifest.parameters) {
      if (parameter.trained) {
        const std::string& name = parameter.names.front();
        tensors.push_back(
            {state_key(state, name),
             name,
             state_dtype(parameter.dtype),
             parameter.sizes,
             parameter.strides});
      }
    }
  }
  return tensors;
}

} // namespace zero::checkpoint
