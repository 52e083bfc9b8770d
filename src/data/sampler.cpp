#include <zero/sampler.h>

#include <algorithm>

#include "base/error.h"
#include "data/permutation.h"

namespace zero {

Sampler::Sampler(int64_t num_samples, SamplerOptions options)
    : state_{
          .num_samples = num_samples,
          .seed = options.seed,
          .shuffle = options.shuffle} {
  if (num_samples < 1) {
    throw ConfigError(c10::str(
        "sampler: expected at least one sample, got ",
        num_samples,
        ". Fix: look whether the data set is empty"));
  }
}

std::vector<int64_t> Sampler::next(
    const World& world,
    int64_t samples_per_rank) {
  if (samples_per_rank < 1) {
    throw ConfigError(c10::str(
        "sampler: expected at least one sample for each rank, got ",
        samples_per_rank));
  }
  auto own = samples(
      state_.position + world.rank() * samples_per_rank, samples_per_rank);
  state_.position += world.size() * samples_per_rank;
  return own;
}

std::vector<int64_t> Sampler::samples(int64_t position, int64_t count) const {
  std::vector<int64_t> samples;
  samples.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    samples.push_back(sample_at(position + i));
  }
  return samples;
}

int64_t Sampler::sample_at(int64_t position) const {
  const int64_t epoch = position / state_.num_samples;
  const int64_t place = position % state_.num_samples;
  // Seeds that follow each other must not have each other's epochs.
  const auto key = static_cast<uint64_t>(
      data::shuffled(epoch, int64_t{1} << 62, state_.seed));
  return state_.shuffle ? data::shuffled(place, state_.num_samples, key)
                        : place;
}

int64_t Sampler::epoch() const {
  return state_.position / state_.num_samples;
}

SamplerState Sampler::state() const {
  return state_;
}

void Sampler::restore(const SamplerState& state) {
  if (state.num_samples != state_.num_samples || state.seed != state_.seed ||
      state.shuffle != state_.shuffle || state.position < 0) {
    throw ConfigError(c10::str(
        "sampler: expected the state of ",
        state_.num_samples,
        " samples with seed ",
        state_.seed,
        state_.shuffle ? ", shuffled" : ", in order",
        "; got ",
        state.num_samples,
        " with seed ",
        state.seed,
        state.shuffle ? ", shuffled" : ", in order",
        ", at ",
        state.position,
        ". Fix: go on with the data and seed that the training began with"));
  }
  state_ = state;
}

std::pair<int64_t, int64_t> share_of(int64_t num_samples, const World& world) {
  const auto until = [&](int64_t rank) {
    const int64_t whole = num_samples / world.size();
    return whole * rank + std::min(num_samples % world.size(), rank);
  };
  return {until(world.rank()), until(world.rank() + 1)};
}

} // namespace zero
