// Defines what safetensors files are made of.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace zero::checkpoint {

struct TensorEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
};

// Texts that a file says of itself.
using Metadata = std::map<std::string, std::string>;

inline constexpr std::array<std::pair<c10::ScalarType, const char*>, 10>
    kSafetensorsTypes{{
        {c10::ScalarType::Double, "F64"},
        {c10::ScalarType::Float, "F32"},
        {c10::ScalarType::Half, "F16"},
        {c10::ScalarType::BFloat16, "BF16"},
        {c10::ScalarType::Long, "I64"},
        {c10::ScalarType::Int, "I32"},
        {c10::ScalarType::Short, "I16"},
        {c10::ScalarType::Char, "I8"},
        {c10::ScalarType::Byte, "U8"},
        {c10::ScalarType::Bool, "BOOL"},
    }};

// nullptr if the format does not have it.
constexpr const char* type_name(c10::ScalarType dtype) {
  for (const auto& [type, name] : kSafetensorsTypes) {
    if (type == dtype) {
      return name;
    }
  }
  return nullptr;
}

} // namespace zero::checkpoint
