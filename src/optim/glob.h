// Defines how names of parameters are matched with patterns of the
// configuration. The engine calls it once per parameter and group.
//
//   matches("*.bias", "layers.0.bias");       // true
//   matches("layers.?.*", "layers.10.bias");  // false
#pragma once

#include <string_view>

namespace zero::optim {

// Whether the whole name is as the pattern says: * stands for any text, also
// for none, ? for any one byte, everything else for itself. Takes time in
// proportion to the name, times the longest text between two * at worst.
bool matches(std::string_view pattern, std::string_view name);

} // namespace zero::optim
