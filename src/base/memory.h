// Defines how much memory this process may still take.
#pragma once

#include <cstdint>

namespace zero::base {

// Bytes that are free or can be freed without swapping, within the limits of
// the containers this process is in. INT64_MAX where the system does not say.
int64_t available_memory();

} // namespace zero::base
