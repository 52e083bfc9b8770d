// How an engine's state becomes a checkpoint.
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <zero/engine.h>
#include <zero/version.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/activity.h"
#include "base/utc_time.h"
#include "checkpoint/background_saver.h"
#include "checkpoint/manifest.h"
#include "checkpoint/random_state.h"
#include "checkpoint/remember_saved.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/write_checkpoint.h"
#include "engine/succession.h"

namespace zero {

using checkpoint::Manifest;
using checkpoint::ShardTensor;
using engine::EngineState;
using shard::Partition;

namespace {

// What a rank owns of a parameter and of its optimizer state, from where it
// lies. `which` is -1 for the parameter itself, else the number of the state.
ShardTensor own_part(const Partition& partition, int number, int which) {
  const auto& parameter = partition.parameter(number);
  const auto whole = partition.layout().parameter(number);
  ShardTensor tensor;
  tensor.key = which < 0 ? checkpoint::parameter_key(parameter.name())
                         : checkpoint::state_key(which, parameter.name());
  tensor.dtype = which < 0 ? partition.dtype() : partition.state_dtype();
  tensor.sizes = parameter.tensor.sizes().vec();
  const int rank = partition.rank();
  partition.layout().for_each_slice(whole, [&](const auto& slice) {
    if (slice.rank == rank) {
      const int64_t flat = slice.range.begin;
      tensor.parts.push_back(
          {{flat - whole.begin, slice.range.end - whole.begin},
           which < 0
               ? partition.parameter_at(rank, flat, slice.shard_offset)
               : partition.state_at(rank, which, flat, slice.shard_offset)});
    }
  });
  return tensor;
}

ShardTensor whole_tensor(const std::string& key, const at::Tensor& tensor) {
  return {
      key,
      tensor.scalar_type(),
      tensor.sizes().vec(),
      {{{0, tensor.numel()},
        static_cast<const std::byte*>(tensor.const_data_ptr())}}};
}

// What this rank writes. `kept` is what has no other owner.
std::vector<ShardTensor> own_tensors(
    const EngineState& state,
    std::vector<at::Tensor>& kept) {
  std::vector<ShardTensor> tensors;
  const auto add = [&](ShardTensor tensor) {
    if (!tensor.parts.empty()) {
      tensors.push_back(std::move(tensor));
    }
  };
  for (const auto& partition : state.partitions()) {
    const int num_states = partition->trainable() ? state.num_states() : 0;
    for (int which = -1; which < num_states; ++which) {
      for (int i = 0; i < partition->layout().num_parameters(); ++i) {
        add(own_part(*partition, i, which));
      }
    }
  }
  if (state.rank() == 0) {
    for (const auto& buffer : state.buffers()) {
      if (buffer.tensor.numel() > 0) {
        kept.push_back(buffer.tensor.detach().contiguous());
        add(whole_tensor(checkpoint::buffer_key(buffer.name()), kept.back()));
      }
    }
  }
  kept.push_back(checkpoint::random_state());
  add(whole_tensor(checkpoint::kRandomKey, kept.back()));
  return tensors;
}

Manifest manifest_of(EngineState& state, const SaveOptions& options) {
  Manifest manifest{
      .libzero_version = ZERO_VERSION,
      .saved_at = base::now_in_utc(),
      .step = state.global_step(),
      .stage = state.config().zero_optimization.stage,
      .optimizer = checkpoint::optimizer_name(state),
      .num_states = state.num_states(),
      .set_rates = state.groups().set_rates(),
      .parameters = {},
      .buffers = {},
      .shards = {},
      .sampler = options.sampler,
      .notes = options.notes,
      .configuration = state.config().to_json()};
  for (const auto& partition : state.partitions()) {
    for (int i = 0; i < partition->layout().num_parameters(); ++i) {
      const auto& parameter = partition->parameter(i);
      manifest.parameters.push_back(
          {parameter.names,
           partition->dtype(),
           parameter.tensor.sizes().vec(),
           parameter.tensor.strides().vec(),
           partition->trainable(),
           state.num_updates(*partition, i)});
    }
  }
  // As the module has them; partitions have them in the order of backward.
  std::ranges::reverse(manifest.parameters);
  for (const auto& buffer : state.buffers()) {
    manifest.buffers.push_back(
        {buffer.name(),
         buffer.tensor.scalar_type(),
         buffer.tensor.sizes().vec()});
  }
  return manifest;
}

checkpoint::Snapshot snapshot_of(
    EngineState& state,
    const SaveOptions& options) {
  state.check_between_rounds("save");
  checkpoint::Snapshot snapshot{
      .step = state.global_step(), .tensors = {}, .kept = {}, .manifest = {}};
  snapshot.tensors = own_tensors(state, snapshot.kept);
  if (state.rank() == 0) {
    snapshot.manifest = manifest_of(state, options);
  }
  return snapshot;
}

} // namespace

std::string Engine::save(const std::string& folder, const SaveOptions& options)
    const {
  const base::Span span(base::Activity::save);
  const c10::NoGradGuard no_grad;
  if (saver_) {
    saver_->wait(); // the newest one comes last
  }
  auto& state = succession_->state();
  auto snapshot = snapshot_of(state, options);
  auto path = checkpoint::write_checkpoint(
      *state.group(), {folder, options.keep}, snapshot);
  checkpoint::remember_saved(*succession_, folder);
  return path;
}

SaveHandle Engine::save_async(
    const std::string& folder,
    const SaveOptions& options) {
  const base::Span span(base::Activity::save);
  const c10::NoGradGuard no_grad;
  auto& state = succession_->state();
  if (!saver_ || !saver_->serves(state.group())) {
    saver_ = std::make_shared<checkpoint::BackgroundSaver>(state.group());
  }
  auto saving =
      saver_->begin({folder, options.keep}, snapshot_of(state, options));
  checkpoint::remember_saved(*succession_, folder);
  return SaveHandle(std::move(saving));
}

bool SaveHandle::done() const {
  return path_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

} // namespace zero
