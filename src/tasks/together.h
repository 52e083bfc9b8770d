// Defines together(): what every rank does, and what fails on one fails on all,
// with one message.
//
//   together(world, [&] { task = make_task(config); });
#pragma once

#include <zero/error.h>
#include <zero/world.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

namespace zero::tasks {

// Thrown by ranks that have nothing to say: another rank says what is wrong.
class FailedElsewhere : public Error {
 public:
  using Error::Error;
};

// Collective. The first rank whose part throws rethrows it.
void together(const World& world, const std::function<void()>& part);

// The two halves of it, for what is exchanged anyway: a column of the rows says
// who failed. A CommError is thrown at once.
std::exception_ptr failure_of(const std::function<void()>& part);
void throw_first(
    const World& world,
    const std::vector<std::vector<double>>& rows,
    size_t column,
    const std::exception_ptr& failure);

// Collective: what rank 0 has.
std::string text_of_rank_0(const World& world, const std::string& text);

// For a rank that has failed elsewhere: until the one that says why is gone,
// whose exit code is to be the first. Returns that of this one.
int wait_for_the_end(const World& world);

// Collective: every rank's row of numbers, in the order of the ranks.
std::vector<std::vector<double>> exchange_rows(
    const World& world,
    const std::vector<double>& own);

} // namespace zero::tasks
