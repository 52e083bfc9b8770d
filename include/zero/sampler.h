// Defines Sampler: which samples each rank trains on, and shares of a data set
// for evaluation.
//
//   zero::Sampler sampler(data.size(), {.seed = 1});
//   auto numbers = sampler.next(world, micro_batch);   // in training, endless
//
//   auto [begin, end] = zero::share_of(data.size(), world); // in evaluation
//
// All ranks together go through an order that depends on the seed alone: with
// the same samples in a batch, 2 ranks with 8 each train on the same as 4 ranks
// with 4 each. An epoch has every sample once. A batch that begins at the end
// of one epoch is filled from the next, so that every batch is whole, and
// nothing is dropped or seen twice.
#pragma once

#include <zero/world.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace zero {

struct SamplerOptions {
  uint64_t seed = 0;
  bool shuffle = true; // in an order of its own in each epoch
};

// Where a sampler is: all that it needs to go on.
struct SamplerState {
  int64_t num_samples = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t position = 0; // samples that all ranks together have taken
};

class Sampler {
 public:
  // Throws: ConfigError if there are no samples.
  explicit Sampler(int64_t num_samples, SamplerOptions options = {});

  // This rank's next samples. All ranks call it with the same number of samples
  // for each. Throws: ConfigError if that is less than 1.
  std::vector<int64_t> next(const World& world, int64_t samples_per_rank);

  // Those at any place of the order, for who shares them out otherwise.
  std::vector<int64_t> samples(int64_t position, int64_t count) const;

  int64_t epoch() const; // of the next sample
  SamplerState state() const;

  // Goes on where another one was, with any number of ranks. Throws:
  // ConfigError if that one had another data set, seed or order.
  void restore(const SamplerState& state);

 private:
  int64_t sample_at(int64_t position) const;

  SamplerState state_;
};

// From and up to which sample this rank has the data set, without the last one.
// The ranks' shares are all samples once, and differ by one at most.
std::pair<int64_t, int64_t> share_of(int64_t num_samples, const World& world);

} // namespace zero
