// Defines a small safetensors file that tests write, look at and read.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"

namespace zero::checkpoint {

inline const std::vector<float> kExampleWeight{1, 2, 3, 4, 5, 6};

// A weight of 2 x 3, a tensor without elements, and a count, 7.
inline void write_example(const std::string& path) {
  SafetensorsWriter writer(
      path,
      {{"weight", at::kFloat, {2, 3}},
       {"nothing", at::kHalf, {0, 5}},
       {"count", at::kLong, {}}});
  const int64_t count = 7;
  writer.write(kExampleWeight.data(), 24);
  writer.write(&count, 8);
  writer.commit();
}

} // namespace zero::checkpoint
