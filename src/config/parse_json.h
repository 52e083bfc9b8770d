// Defines parse_json(), made for hostile text: size, depth and number of values
// are bounded, and a key that is given twice is a mistake.
//
//   Report report("zero.json");
//   JsonValue root = parse_json(text, "zero.json", report);
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/json_value.h"
#include "config/report.h"

namespace zero::config {

constexpr size_t kMaxJsonBytes = size_t{16} << 20;
constexpr size_t kMaxJsonDepth = 64;
constexpr size_t kMaxJsonValues = 200'000;

// Comments are allowed, as in DeepSpeed's files: // and /* */. What can be read
// past is put in the report.
// Throws: ConfigError with line and column if the text is not JSON.
JsonValue parse_json(
    std::string_view text,
    const std::string& origin,
    Report& report);

} // namespace zero::config
