// Defines EngineState: what is behind an Engine. Its step() is the step that
// docs/architecture.md describes.
#pragma once

#include <zero/engine.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/buffer_sync.h"
#include "engine/module_parameters.h"
#include "engine/parameter_groups.h"
#include "engine/tamper_check.h"
#include "engine/update.h"
#include "gather/gatherer.h"
#include "observe/gradient_observer.h"
#include "reduce/reducer.h"
#include "shard/partition.h"

namespace zero::engine {

class EngineState {
 public:
  EngineState(
      const World& world,
      std::shared_ptr<torch::nn::Module> module,
      const Config& config,
      std::shared_ptr<Optimizer> optimizer);
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  void backward(const at::Tensor& loss);
  StepResult step();
  void zero_grad();
  void join();

  int64_t global_step() const {
    return global_step_;
  }
  int64_t accumulation_steps() const {
    return accumulation_steps_;
  }
  int64_t micro_step() const {
    return micro_step_;
  }
  ParameterGroups& groups() {
    return *groups_;
  }
  MemoryAccount memory() const;
  EngineTraffic traffic() const;
  void reset_traffic();
  gather::GatherStatistics statistics() const;

  std::function<void()> gather(
      const std::vector<at::Tensor>& tensors,
      Access access);
  at::Tensor full_gradient(const at::Tensor& tensor) const;

  const torch::nn::Module& module() const {
    return *module_;
  }
  const Config& config() const {
    return config_;
  }
  // Also when the parameters are not all known yet: frozen ones come last.
  const std::vector<std::unique_ptr<shard::Partition>>& partitions() const {
    return partitions_;
  }
  int num_states() const {
    return num_states_;
  }
  bool has_own_optimizer() const {
    return has_own_optimizer_;
  }
  int64_t num_updates(const shard::Partition& partition, int number) const;
  std::vector<shard::Parameter> buffers() const;
  int rank() const {
    return group_->rank();
  }
  int size() const {
    return group_->size();
  }
  std::string prefix() const; // of messages
  const std::shared_ptr<comm::Group>& group() const {
    return group_;
  }
  void barrier() const;
  // Collective: whether every rank says yes.
  bool agree_on(bool yes) const;
  bool is_parameter(const at::Tensor& tensor) const;
  // Throws: ConfigError unless parameters are as the engine left them; what an
  // earlier call failed with, if ranks could not go on together.
  void check_parameters() const;

  // Throws: ConfigError unless the engine is between two rounds.
  void check_between_rounds(const char* call) const;
  void check_nothing_lent() const;
  // Every later call throws it.
  void fail_for_good(std::exception_ptr failure) {
    failure_ = std::move(failure);
  }

  // Collective: takes on what was saved. What a rank's part throws is rethrown
  // there when all have come to the end of it.
  struct Restored {
    // Writes what this rank updates, and its optimizer state.
    std::function<void()> own_slices;
    // On rank 0: a frozen parameter, whole. It may be asked for any number of
    // times.
    std::function<void(const shard::Parameter&, std::byte* to)> frozen;
    // On rank 0: into the module's buffers.
    std::function<void()> buffers;
  };
  void restore(const Restored& restored);
  void set_progress(int64_t global_step);
  void set_num_updates(
      const shard::Partition& partition,
      int number,
      int64_t count);

  // For tests, and for whoever finishes what a lost rank had begun.
  Update& update() {
    return *update_;
  }
  const Decision& decision() const {
    return decision_;
  }

 private:
  struct Agreement {
    double norm = 0;
    bool all_joined = false;
  };
  struct Place {
    const shard::Partition* partition = nullptr;
    int index = -1; // among the trainable ones; -1 if it is not
    int number = 0;
    bool operator==(const Place&) const = default;
  };

  using ValuesOf = std::function<const std::byte*(int number)>;

  std::vector<shard::Parameter> all_parameters() const;
  void make_partitions();
  shard::Partition& add_partition(
      std::vector<shard::Parameter> parameters,
      bool trainable);
  void train(const shard::Partition& partition);
  void take_values_of_rank_0(
      const shard::Partition& partition,
      const ValuesOf& values_of) const;
  void spread(
      const shard::Partition& partition,
      int number,
      const std::byte* values) const;
  void take_storages(const shard::Partition& partition) const;
  void return_storages(const shard::Partition& partition) const;
  Place place_of(const at::Tensor& tensor) const;

  void remember_failure(const std::function<void()>& call);
  void run_backward(const at::Tensor& loss);
  StepResult run_step();
  void print(const StepResult& result) const;
  void run_join();
  bool reduces_now() const;
  void reduce_what_is_left();
  void reduce_and_close();
  void watch_frozen();
  void say_what_thaws();
  bool take_in_what_thaws();
  void thaw(
      const shard::Partition& partition,
      std::vector<shard::Parameter> thawed,
      std::vector<shard::Parameter> kept);
  Agreement agree(bool joined);
  // What every rank says, in the order of their numbers.
  std::vector<int64_t> exchange(const std::vector<int64_t>& own) const;
  void update_parameters(double norm);
  void send_updated() const;
  void count_sent_by_others() const;
  void await_all_updates(const std::exception_ptr& failure);
  void publish_parameters();
  void take_updated() const;
  void restore_frozen(const Restored& restored) const;
  void end_round();
  void check_replicas() const;
  void agree_on_order(std::vector<Place>& places) const;
  void agree_if_writing(Access access, const std::function<void()>& part) const;
  void pin_all(const std::vector<at::Tensor>& tensors) const;
  void check_not_lent(const std::vector<Place>& places) const;
  void lend_a_copy(const Place& place) const;
  void write_back(const Place& place) const;

  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<comm::Group> group_;
  Config config_;
  int64_t accumulation_steps_ = 1;
  int num_states_ = 0; // of the optimizer, per parameter
  bool has_own_optimizer_ = false; // the program's
  std::vector<std::unique_ptr<shard::Partition>> partitions_;
  std::vector<const shard::Partition*> trainable_;
  std::vector<const shard::Partition*> frozen_;
  std::unique_ptr<reduce::GradientFlags> thawing_; // of the frozen ones
  std::unique_ptr<gather::Gatherer> gatherer_; // where parameters can be absent
  std::unique_ptr<reduce::Reducer> reducer_;
  std::unique_ptr<ParameterGroups> groups_;
  std::unique_ptr<Update> update_;
  std::unique_ptr<BufferSync> buffers_;
  TamperCheck tamper_check_;
  std::vector<Place> lent_; // to guards that write
  observe::GradientObserver gradient_observer_; // uses the reducer

  int64_t micro_step_ = 0; // backward calls in this round
  int64_t global_step_ = 0;
  Decision decision_;
  int64_t control_bytes_ = 0;
  std::exception_ptr refused_; // of this round: told when it is over
  std::exception_ptr failure_; // of ranks that could not go on together
  std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);
};

} // namespace zero::engine
