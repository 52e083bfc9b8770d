// Defines how long a rank that waits for others spins, yields and sleeps.
//
// Note [Waiting]
// With a core for each rank the other one is at work, and its answer comes
// sooner than a sleep and a wake-up would take: so a waiter first spins, some 5
// microseconds, then yields. A yield costs little while the core is free, and
// gives it away at once when it is not, perhaps to the very rank that is
// awaited. With fewer cores than ranks there is nothing to spin for.
#pragma once

#include <chrono>

namespace zero::comm {

inline constexpr int kSpins = 100;
inline constexpr int kYields = 200;
inline constexpr int kCrowdedYields = 20;

// Between hosts it helps to move what it waits for, for so long.
inline constexpr std::chrono::microseconds kHelp(150);
inline constexpr std::chrono::microseconds kCrowdedHelp(20);

// A sleeper looks for lost and late ranks this often,
inline constexpr std::chrono::milliseconds kSleep(50);
// at what rings no doorbell this often,
inline constexpr std::chrono::microseconds kLook(50);
// and says that it still waits this often.
inline constexpr double kWarningSeconds = 10;

} // namespace zero::comm
