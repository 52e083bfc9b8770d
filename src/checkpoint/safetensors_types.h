// Defines the element types of safetensors files.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zero::checkpoint {

struct TensorEntry {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
};

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

} // namespace zero::checkpoint
