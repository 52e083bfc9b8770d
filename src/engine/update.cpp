#include "engine/update.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "base/failpoint.h"
#include "optim/norm.h"
#include "optim/parallel.h"

namespace zero::engine {

using shard::Range;

namespace {

at::Tensor tensor_at(std::byte* data, int64_t numel, at::ScalarType dtype) {
  return at::from_blob(data, {numel}, at::TensorOptions(dtype));
}

// A block for each thread; the same on all ranks, which may have to go on with
// each other's chunks.
int64_t agreed_chunk_numel(comm::Group& group) {
  const auto threads =
      group.exchange(CommOp::all_gather, {at::get_num_threads()});
  return optim::kBlock * std::ranges::max(threads);
}

int64_t bytes_per_element(const Optimizer& optimizer) {
  // The widest types: a parameter and its states of 8 bytes each.
  return int64_t{8} * (1 + optimizer.num_states());
}

} // namespace

Update::Update(
    const reduce::Reducer& reducer,
    std::shared_ptr<Optimizer> optimizer,
    const ParameterGroups& groups,
    bool journaled,
    const std::shared_ptr<comm::Group>& group)
    : reducer_(reducer),
      optimizer_(std::move(optimizer)),
      groups_(groups),
      journaled_(journaled),
      chunk_numel_(agreed_chunk_numel(*group)),
      journal_(
          group,
          journaled_ ? chunk_numel_ * bytes_per_element(*optimizer_) : 0) {}

void Update::add(const shard::Partition* partition) {
  partitions_.push_back(partition);
  num_updates_.emplace_back(partition->parameters().size());
}

std::vector<Update::Part> Update::parts_of(int rank) const {
  std::vector<Part> parts;
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    add_parts_of(rank, i, parts);
    for (const int kept : partitions_[static_cast<size_t>(i)]->kept_by(rank)) {
      add_parts_of(kept, i, parts);
    }
  }
  return parts;
}

void Update::add_parts_of(int owner, int index, std::vector<Part>& parts)
    const {
  const auto& partition = *partitions_[static_cast<size_t>(index)];
  const auto& layout = partition.layout();
  for (const auto& slice : partition.updated_slices(owner)) {
    for (int number = layout.first_parameter(slice.range);
         number < layout.num_parameters() &&
         layout.parameter(number).begin < slice.range.end;
         ++number) {
      const Range range = intersection(layout.parameter(number), slice.range);
      if (!range.empty()) {
        parts.push_back(
            {owner,
             index,
             number,
             range,
             slice.shard_offset + range.begin - slice.range.begin});
      }
    }
  }
}

// What lies together and is treated alike becomes one run. Padding between two
// parameters is taken along: it is zero, has no gradient, and stays zero.
std::vector<Update::Run> Update::runs_of(int rank) const {
  std::vector<Run> runs;
  for (const auto& part : parts_of(rank)) {
    if (!reducer_.has_gradient({part.partition, part.parameter})) {
      continue;
    }
    const int group = groups_.group_of(part.partition, part.parameter);
    const int64_t step = num_updates_[static_cast<size_t>(part.partition)]
                                     [static_cast<size_t>(part.parameter)] +
        1;
    if (!runs.empty()) {
      Run& last = runs.back();
      const int64_t gap =
          part.range.begin - (last.first.range.begin + last.numel);
      const int64_t shard_gap =
          part.shard_offset - (last.first.shard_offset + last.numel);
      const bool together = last.first.partition == part.partition &&
          last.first.owner == part.owner && gap >= 0 &&
          gap < shard::Layout::kAlignment && gap == shard_gap;
      if (together && last.group == group && last.step == step) {
        last.numel += gap + part.range.numel();
        continue;
      }
    }
    runs.push_back({part, part.range.numel(), group, step});
  }
  return runs;
}

void Update::run(int rank, const Decision& decision) {
  const auto runs = runs_of(rank);
  const int64_t resumed = journaled_ ? journal_.next_chunk(rank) : 0;
  int64_t number = 0;
  for (const auto& run : runs) {
    for (int64_t begin = 0; begin < run.numel;
         begin += chunk_numel_, ++number) {
      if (number < resumed) {
        continue;
      }
      const int64_t numel = std::min(chunk_numel_, run.numel - begin);
      if (journaled_) {
        const auto pieces = pieces_of(run, begin, numel);
        if (!journal_.restore(rank, number, pieces)) {
          journal_.enter(rank, number, pieces);
        }
        base::failpoint("engine.moment");
      }
      update_chunk(run, begin, numel, decision);
      base::failpoint("engine.moment");
    }
  }
}

std::vector<Journal::Piece> Update::pieces_of(
    const Run& run,
    int64_t begin,
    int64_t numel) const {
  const auto& partition =
      *partitions_[static_cast<size_t>(run.first.partition)];
  const int rank = run.first.owner;
  const int64_t flat = run.first.range.begin + begin;
  const int64_t in_shard = run.first.shard_offset + begin;
  std::vector<Journal::Piece> pieces{
      {partition.parameter_at(rank, flat, in_shard),
       numel * partition.element_bytes()}};
  for (int state = 0; state < optimizer_->num_states(); ++state) {
    pieces.push_back(
        {partition.state_at(rank, state, flat, in_shard),
         numel * partition.state_element_bytes()});
  }
  return pieces;
}

void Update::update_chunk(
    const Run& run,
    int64_t begin,
    int64_t numel,
    const Decision& decision) {
  const auto& partition =
      *partitions_[static_cast<size_t>(run.first.partition)];
  const int rank = run.first.owner;
  const int64_t flat = run.first.range.begin + begin;
  const int64_t in_shard = run.first.shard_offset + begin;
  const auto settings = groups_.settings(run.group, decision.step);
  Slice slice;
  slice.parameter = tensor_at(
      partition.parameter_at(rank, flat, in_shard), numel, partition.dtype());
  slice.gradient = tensor_at(
      partition.gradient_at(rank, flat, in_shard),
      numel,
      partition.state_dtype());
  for (int state = 0; state < optimizer_->num_states(); ++state) {
    slice.states.push_back(tensor_at(
        partition.state_at(rank, state, flat, in_shard),
        numel,
        partition.state_dtype()));
  }
  if (decision.gradient_factor != 1) {
    // Elsewhere: the means stay as they are, for whoever finishes the update.
    if (!scaled_.defined() ||
        scaled_.scalar_type() != partition.state_dtype()) {
      scaled_ =
          at::empty({chunk_numel_}, at::TensorOptions(partition.state_dtype()));
    }
    at::Tensor scaled = scaled_.narrow(0, 0, numel);
    scaled.copy_(slice.gradient);
    optim::scale(scaled, decision.gradient_factor);
    slice.gradient = scaled;
  }
  slice.step = run.step;
  slice.lr = settings.lr;
  slice.weight_decay = settings.weight_decay;
  slice.momentum = settings.momentum;
  optimizer_->update(slice);
}

void Update::take_counts(const Update& before) {
  std::ranges::copy(before.num_updates_, num_updates_.begin());
}

void Update::count() {
  for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
    const int count =
        partitions_[static_cast<size_t>(i)]->layout().num_parameters();
    for (int number = 0; number < count; ++number) {
      num_updates_[static_cast<size_t>(i)][static_cast<size_t>(number)] +=
          reducer_.has_gradient({i, number}) ? 1 : 0;
    }
  }
}

size_t Update::index_of(const shard::Partition* partition) const {
  return static_cast<size_t>(
      std::ranges::find(partitions_, partition) - partitions_.begin());
}

int64_t Update::num_updates(const shard::Partition* partition, int number)
    const {
  return num_updates_[index_of(partition)][static_cast<size_t>(number)];
}

void Update::set_num_updates(
    const shard::Partition* partition,
    int number,
    int64_t count) {
  num_updates_[index_of(partition)][static_cast<size_t>(number)] = count;
}

} // namespace zero::engine
