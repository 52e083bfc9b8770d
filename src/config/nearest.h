// Defines the guess at what a misspelt word was meant to be.
//
//   nearest("stgae", {"stage", "overlap_comm"}) == "stage"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero::config {

// How many letters are to be added, removed, replaced or swapped with the next
// one; case does not count, and - is _.
size_t spelling_distance(std::string_view a, std::string_view b);

// Nothing if no known word is near enough to be a likely guess.
std::optional<std::string> nearest(
    std::string_view word,
    const std::vector<std::string>& known);

} // namespace zero::config
