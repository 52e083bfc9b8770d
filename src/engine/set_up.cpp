// How an EngineState comes about: taking stock of the module, partitioning it,
// taking its memory over; and giving it back at the end.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/tensor_memory.h"
#include "comm/shm/collectives.h"
#include "comm/world_state.h"
#include "engine/engine_state.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "shard/storage.h"

namespace zero::engine {

using shard::Home;
using shard::Parameter;
using shard::Partition;

namespace {

// 2 MiB of float32: large enough that what is done once per bucket does not
// matter, small enough to stay in the cache from the rank that fills it to the
// one that reduces it.
constexpr int64_t kBucketNumel = 512 << 10;

std::shared_ptr<Optimizer> make_optimizer(const Config& config) {
  const auto options = optim::with_schedule(config.optimizer, config.scheduler);
  return options.type == OptimizerConfig::Type::sgd ? optim::make_sgd(options)
                                                    : optim::make_adam(options);
}

reduce::MeanScale mean_scale(const Config& config, int num_ranks) {
  const double factor = config.gradient_predivide_factor;
  if (config.prescale_gradients) {
    return {.before = 1.0 / num_ranks, .divisor = 1};
  }
  return {.before = 1 / factor, .divisor = num_ranks / factor};
}

int64_t budget_bytes(const ByteBudget& budget, int64_t all_bytes) {
  return budget.bytes.value_or(
      static_cast<int64_t>(budget.share * static_cast<double>(all_bytes)));
}

const std::byte* data_of(const Parameter& parameter) {
  return static_cast<const std::byte*>(parameter.storage.data());
}

} // namespace

EngineState::EngineState(
    const World& world,
    std::shared_ptr<torch::nn::Module> module,
    const Config& config,
    std::shared_ptr<Optimizer> optimizer)
    : module_(std::move(module)),
      group_(make_group(world, config)),
      config_(config),
      has_own_optimizer_(optimizer != nullptr),
      optimizer_(optimizer_or_configured(std::move(optimizer), config_)),
      num_states_(optimizer_->num_states()),
      has_module_(true) {
  require_module(module_);
  base::keep_large_tensors();
  accumulation_steps_ = config_.batch_sizes(group_->size()).accumulation;
  make_partitions();
  make_gatherer();
  make_training_parts();
  for (const auto* partition : trainable_) {
    watch_gradients(*partition);
  }
  for (const auto& parameter : all_parameters()) {
    parameter.tensor.mutable_grad().reset();
    tamper_check_.accept(parameter);
  }
  barrier(); // nobody trains before everybody is ready
}

void EngineState::require_module(
    const std::shared_ptr<torch::nn::Module>& module) {
  if (!module) {
    throw ConfigError(
        "the engine needs a module, got none. Fix: pass module.ptr() of one that "
        "is there");
  }
}

std::shared_ptr<Optimizer> EngineState::optimizer_or_configured(
    std::shared_ptr<Optimizer> optimizer,
    const Config& config) {
  return optimizer ? std::move(optimizer) : make_optimizer(config);
}

// Before there is a group: it keeps what it has begun with.
void EngineState::set_timeouts(
    comm::Membership& membership,
    const Config& config) {
  if (const auto seconds = config.libzero.timeout_seconds) {
    membership.set_timeout(*seconds);
  }
  if (const auto seconds = config.libzero.progress_timeout_seconds) {
    membership.set_progress_timeout(*seconds);
  }
}

std::shared_ptr<comm::Group> EngineState::make_group(
    const World& world,
    const Config& config) {
  config.validate();
  const auto& current = comm::state_of(world)->current();
  set_timeouts(*current->membership(), config);
  return current->split(0, world.rank());
}

// Where parameters can be absent.
void EngineState::make_gatherer() {
  if (partitions_.empty() || !partitions_.front()->parameters_can_be_absent()) {
    return;
  }
  const auto& zero = config_.zero_optimization;
  int64_t all_bytes = 0;
  int64_t widest = 0;
  std::vector<const Partition*> all;
  for (const auto& partition : partitions_) {
    all.push_back(partition.get());
    all_bytes += partition->layout().numel() * partition->element_bytes();
    widest = std::max(widest, partition->element_bytes());
  }
  const int64_t live_bytes =
      zero.stage3_max_live_parameters < all_bytes / widest
      ? zero.stage3_max_live_parameters * widest
      : all_bytes;
  gatherer_ = gather::make_gatherer(
      all,
      group_,
      gather::GatherOptions{
          .budget_bytes = std::min(
              live_bytes,
              budget_bytes(config_.libzero.gather_budget, all_bytes)),
          .prefetch_numel = zero.stage3_prefetch_bucket_size,
          .persistent_numel = zero.stage3_param_persistence_threshold});
}

// What turns gradients into updates, and buffers into everybody's.
void EngineState::make_training_parts() {
  reducer_ = std::make_unique<reduce::Reducer>(
      trainable_,
      group_,
      reduce::ReducerOptions{
          .scale = mean_scale(config_, group_->size()),
          .norm_type = config_.libzero.clip_norm_type,
          .overlap = config_.zero_optimization.overlap_comm});
  groups_ = std::make_unique<ParameterGroups>(config_, all_parameters());
  update_ = std::make_unique<Update>(
      *reducer_,
      optimizer_,
      *groups_,
      config_.zero_optimization.stage > 0 && goes_on_after_losses(),
      group_);
  for (const auto* partition : trainable_) {
    train(*partition);
  }
  update_->journal().open(round_);
  watch_frozen();
  buffers_ = std::make_unique<BufferSync>(buffers_of(*module_), group_);
  buffers_->offer(round_);
  barrier();
  buffers_->take(round_);
}

EngineState::~EngineState() {
  if (!has_module_) {
    return; // another state has its parameters
  }
  gatherer_.reset();
  for (const auto& partition : partitions_) {
    for (const auto& parameter : partition->parameters()) {
      if (partition->trainable()) {
        parameter.tensor.mutable_grad().reset(); // it lies in our memory
      }
    }
    return_storages(*partition);
  }
}

std::vector<Parameter> EngineState::all_parameters() const {
  std::vector<Parameter> all;
  for (const auto& partition : partitions_) {
    const auto& parameters = partition->parameters();
    all.insert(all.end(), parameters.begin(), parameters.end());
  }
  return all;
}

void EngineState::make_partitions() {
  auto parameters =
      parameters_of(*module_, base::rank_prefix(rank(), group_->size()));
  check_same_on_all_ranks(*group_, config_, parameters, buffers_of(*module_));
  // Backward completes gradients in about the reverse order of registration.
  std::map<std::pair<bool, at::ScalarType>, std::vector<Parameter>> kinds;
  std::reverse(parameters.begin(), parameters.end());
  for (auto& parameter : parameters) {
    const auto& tensor = parameter.tensor;
    if (!shard::owns_its_storage(tensor)) {
      shard::give_own_storage(tensor);
    }
    parameter.storage = tensor.storage();
    kinds[{!tensor.requires_grad(), tensor.scalar_type()}].push_back(parameter);
  }
  for (auto& [kind, members] : kinds) {
    const auto& [frozen, dtype] = kind;
    const auto& partition = add(make_partition(std::move(members), !frozen));
    take_values_of_rank_0(partition, [&](int number) {
      return data_of(partition.parameter(number));
    });
    take_storages(partition);
  }
}

std::unique_ptr<Partition> EngineState::make_partition(
    std::vector<Parameter> parameters,
    bool trainable) const {
  const auto& zero = config_.zero_optimization;
  return std::make_unique<Partition>(
      std::move(parameters),
      group_,
      shard::PartitionOptions{
          .stage = zero.stage,
          .shared_memory = config_.libzero.shared_memory,
          .trainable = trainable,
          .redundant = config_.libzero.redundancy > 0,
          .num_states = trainable ? num_states_ : 0,
          .bucket_numel = std::min(kBucketNumel, zero.reduce_bucket_size)});
}

Partition& EngineState::add(std::unique_ptr<Partition> partition) {
  partitions_.push_back(std::move(partition));
  auto& added = *partitions_.back();
  (added.trainable() ? trainable_ : frozen_).push_back(&added);
  return added;
}

// The reducer has it already.
void EngineState::train(const Partition& partition) {
  groups_->add(partition);
  update_->add(&partition);
}

void EngineState::watch_gradients(const Partition& partition) {
  const auto place =
      std::find(trainable_.begin(), trainable_.end(), &partition);
  const int index = static_cast<int>(place - trainable_.begin());
  for (int number = 0; number < partition.layout().num_parameters(); ++number) {
    gradient_observer_->watch(
        partition.parameter(number).tensor, [this, index, number] {
          reducer_->gradient_ready({index, number});
        });
  }
}

// Rank 0 writes its values to wherever they belong.
void EngineState::take_values_of_rank_0(
    const Partition& partition,
    const ValuesOf& values_of) const {
  const auto& layout = partition.layout();
  if (!group_->reach().is_one_host()) {
    for (int i = 0; i < layout.num_parameters(); ++i) {
      spread(partition, i, values_of(i));
    }
    barrier(); // everybody has written what it owns
    return;
  }
  if (rank() == 0) {
    for (int i = 0; i < layout.num_parameters(); ++i) {
      partition.write(i, values_of(i));
    }
  }
  barrier();
  if (rank() != 0 && partition.parameter_home() == Home::full) {
    std::memcpy(
        partition.parameter_at(rank(), 0, 0),
        partition.parameter_at(0, 0, 0),
        static_cast<size_t>(layout.numel() * partition.element_bytes()));
  }
}

// Over several hosts: every rank writes down what rank 0 has.
void EngineState::spread(
    const Partition& partition,
    int number,
    const std::byte* values) const {
  const int64_t bytes =
      partition.layout().parameter(number).numel() * partition.element_bytes();
  if (bytes == 0) {
    return;
  }
  const at::Tensor all = at::empty({bytes}, at::kByte);
  auto* data = static_cast<std::byte*>(all.mutable_data_ptr());
  if (rank() == 0) {
    std::memcpy(data, values, static_cast<size_t>(bytes));
  }
  const auto broadcast = comm::make_broadcast(group_->context(), all, 0);
  broadcast->counted = false;
  group_->progress().submit(broadcast);
  group_->progress().wait(broadcast);
  partition.write(number, data);
}

// Parameters that are always here lie in the window from now on.
void EngineState::take_storages(const Partition& partition) const {
  if (partition.parameters_can_be_absent()) {
    return; // the gatherer does
  }
  for (int i = 0; i < partition.layout().num_parameters(); ++i) {
    const auto range = partition.layout().parameter(i);
    if (!range.empty()) {
      shard::point_at(
          partition.parameter(i).storage,
          partition.parameter_at(rank(), range.begin, 0),
          partition.window());
    }
  }
}

// The module's storages get memory of their own again.
void EngineState::return_storages(const Partition& partition) const {
  for (int i = 0; i < partition.layout().num_parameters(); ++i) {
    const auto& storage = partition.parameter(i).storage;
    if (storage.nbytes() == 0) {
      continue;
    }
    try {
      auto memory =
          std::make_shared_for_overwrite<std::byte[]>(storage.nbytes());
      partition.read(i, memory.get()).bytes->wait();
      shard::point_at(storage, memory.get(), memory);
    } catch (const CommError&) {
      shard::make_absent(
          storage,
          c10::str(
              "parameter '",
              partition.parameter(i).name(),
              "' was partitioned over several hosts, of which one had gone "
              "when the engine ended. Fix: export what is needed before"));
    } catch (const std::bad_alloc&) {
      // It stays in the window, which lives as long as it does, or absent.
      base::log_warning(
          rank(),
          group_->size(),
          c10::str(
              "no memory of its own for parameter '",
              partition.parameter(i).name(),
              "' when the engine ended"));
    }
  }
}

} // namespace zero::engine
