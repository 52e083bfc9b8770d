// Defines shares written as percentages: "25%" is 0.25. Writing and reading
// back gives the same double, which dividing by 100 would not.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zero::config {

// Nothing if the text is not digits, perhaps with a point, and a percent sign.
std::optional<double> parse_percentage(std::string_view text);

// Requires: the share is finite and not negative.
std::string to_percentage(double share);

} // namespace zero::config
