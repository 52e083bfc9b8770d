// Works out the sizes of a batch by DeepSpeed's rule:
// train = micro x accumulation x ranks.
#include <zero/config.h>

#include "base/error.h"
#include "config/sections.h"

namespace zero {

namespace {

constexpr const char* kTrain = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

int64_t product(int64_t a, int64_t b, int64_t c) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) ||
      __builtin_mul_overflow(result, c, &result)) {
    throw ConfigError(c10::str(
        "the sizes of the batch multiply to more than 64 bits hold: ",
        a,
        " x ",
        b,
        " x ",
        c,
        ". Fix: make them smaller"));
  }
  return result;
}

// train / (factor x ranks), which is `wanted`.
int64_t quotient(
    int64_t train,
    const char* factor_name,
    int64_t factor,
    int num_ranks,
    const char* wanted) {
  const int64_t divisor = product(factor, num_ranks, 1);
  if (train % divisor != 0) {
    throw ConfigError(c10::str(
        kTrain,
        " ",
        train,
        " does not give a whole ",
        wanted,
        ": ",
        train,
        " / (",
        factor_name,
        " ",
        factor,
        " x ",
        num_ranks,
        " ranks) leaves ",
        train % divisor,
        ". Fix: set ",
        kTrain,
        " to a multiple of ",
        divisor,
        ", or change the number of ranks"));
  }
  return train / divisor;
}

void check_product(const BatchSizes& sizes, int num_ranks) {
  const int64_t expected = product(sizes.micro, sizes.accumulation, num_ranks);
  if (sizes.train != expected) {
    throw ConfigError(c10::str(
        kTrain,
        " is ",
        sizes.train,
        ", but ",
        kMicro,
        " ",
        sizes.micro,
        " x ",
        kAccumulation,
        " ",
        sizes.accumulation,
        " x ",
        num_ranks,
        " ranks = ",
        expected,
        ". Fix: set ",
        kTrain,
        " to ",
        expected,
        ", or leave one of the three out to have it worked out"));
  }
}

} // namespace

BatchSizes Config::batch_sizes(int num_ranks) const {
  config::Report report("configuration");
  config::check_batch_sizes(*this, report); // no size is 0 then
  report.throw_if_any();
  if (num_ranks < 1) {
    throw ConfigError(c10::str(
        "batch sizes of ",
        num_ranks,
        " ranks, expected at least 1. Fix: give the size of the world"));
  }
  BatchSizes sizes{
      .train = train_batch_size.value_or(1),
      .micro = train_micro_batch_size_per_gpu.value_or(1),
      .accumulation = gradient_accumulation_steps.value_or(1)};
  if (!train_batch_size) {
    sizes.train = product(sizes.micro, sizes.accumulation, num_ranks);
  } else if (!train_micro_batch_size_per_gpu) {
    sizes.micro = quotient(
        sizes.train, kAccumulation, sizes.accumulation, num_ranks, kMicro);
  } else if (!gradient_accumulation_steps) {
    sizes.accumulation =
        quotient(sizes.train, kMicro, sizes.micro, num_ranks, kAccumulation);
  }
  check_product(sizes, num_ranks);
  return sizes;
}

} // namespace zero
