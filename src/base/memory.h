// Defines how much memory this process may still take.
#pragma once

#include <cstdint>

namespace zero::base {

// Bytes that are free or can be freed without swapping, within the limits of
// the containers this process is in. INT64_MAX where the system does not say.
int64_t available_memory();

// Asked before memory is taken: the system would give all there is, and then
// kill somebody instead of saying no. Throws: IoError if it is not there.
void check_available_memory(int64_t bytes);

int64_t total_memory(); // of the machine

// What this process takes of it: of pages that several processes have, its
// share, so that the sum over processes is what they take together. 0 where the
// system does not say.
int64_t own_memory();

} // namespace zero::base
