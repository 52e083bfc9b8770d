// Defines settings of the command line: values that go before those of a file.
//
//   apply_setting(root, "optimizer.params.lr=3e-4");
#pragma once

#include <string_view>

#include "config/json_value.h"

namespace zero::config {

// The line of what no file has.
constexpr int kSetLine = -1;
// Of what a model that is loaded brings.
constexpr int kLoadedLine = -2;

// A value that is not JSON is a text. Objects on the way are made. Throws:
// ConfigError if it has no key or no '=', or goes through what is no object.
void apply_setting(JsonValue& root, std::string_view setting);

} // namespace zero::config
