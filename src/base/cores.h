// Defines how many cores this process may use.
#pragma once

namespace zero::base {

// The cores of this process's affinity mask, cut to its container's quota;
// at least 1.
int available_cores();

} // namespace zero::base
