// Defines EngineState: what is behind an Engine, for as long as the same ranks
// train. Its step() is the step that docs/architecture.md describes. When ranks
// are lost or newcomers are let in, Succession makes another one for those who
// go on.
#pragma once

#include <zero/engine.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/buffer_sync.h"
#include "engine/handover.h"
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
  // Collective over `group`, who are left of the ranks of `before`, and
  // newcomers behind them: goes on from what that one has, and leaves the
  // module to it until begin().
  EngineState(const EngineState& before, std::shared_ptr<comm::Group> group);
  // The same on a newcomer, which has matched its module with what the others
  // told it.
  struct Newcomer {
    std::shared_ptr<torch::nn::Module> module;
    Config config;
    std::shared_ptr<Optimizer> optimizer; // the program's own, if it has one
  };
  EngineState(
      const Newcomer& newcomer,
      const Handover& handover,
      std::vector<std::vector<shard::Parameter>> partitions,
      std::shared_ptr<comm::Group> group);
  // The same with nothing in it, for what was saved to be restored.
  struct Emptied {};
  EngineState(
      const EngineState& before,
      std::shared_ptr<comm::Group> group,
      Emptied tag);
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  void backward(const at::Tensor& loss);
  StepResult step();
  void zero_grad();
  // False if it is to be called again, when newcomers were let in.
  bool join();

  // How ranks agree to let newcomers in before the next round: those where all
  // would do so by what each sees.
  struct Admission {
    std::function<bool()> would_let_in = [] { return false; };
    std::function<void()> lets_in = [] {};
  };
  void set_admission(Admission admission) {
    admission_ = std::move(admission);
  }
  // What newcomers have to know of it.
  Handover handover() const;
  // Throws: ConfigError unless there is one.
  static void require_module(const std::shared_ptr<torch::nn::Module>& module);
  static std::shared_ptr<Optimizer> optimizer_or_configured(
      std::shared_ptr<Optimizer> optimizer,
      const Config& config);
  // By the configuration, if it has any.
  static void set_timeouts(comm::Membership& membership, const Config& config);

  int64_t global_step() const {
    return global_step_;
  }
  int64_t accumulation_steps() const {
    return accumulation_steps_;
  }
  void set_accumulation_steps(int64_t steps);
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
  // Rounds that have ended, with an update or without.
  uint64_t round() const {
    return round_;
  }
  // Of the last round that ended with an update.
  const StepResult& result() const {
    return result_;
  }

  // Whether the configuration and who started the ranks let those who are left
  // go on when one is lost. It stays so.
  bool goes_on_after_losses() const;
  // The same of newcomers: also when one rank is left.
  bool lets_newcomers_in() const;

  // How a loss of ranks leaves the round; see recover.cpp.
  struct Settled {
    std::exception_ptr failure; // what the round has ended with, if it is that
    bool all_joined = false; // it was the last one
  };
  // Collective over those who are left, while nobody trains: what all ranks had
  // decided is completed, for the lost ones too; else the round is as if nobody
  // had begun it. Throws: CommError; it may be called again with those who are
  // left then.
  Settled settle_round(comm::Group& survivors);
  // Whether those who are left have all that the lost ones had.
  bool have_everything(const comm::Group& survivors) const;
  // The same for parameters that were on their way from frozen to trained.
  void settle_thawing(comm::Group& survivors);
  // The module's parameters are handed over, from one state to the next.
  void retire();
  void begin();

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

 private:
  struct Agreement {
    double norm = 0;
    bool all_joined = false;
    bool lets_in = false; // newcomers, before the next round
  };
  struct Place {
    const shard::Partition* partition = nullptr;
    int index = -1; // among the trainable ones; -1 if it is not
    int number = 0;
    bool operator==(const Place&) const = default;
  };

  using ValuesOf = std::function<const std::byte*(int number)>;

  std::vector<shard::Parameter> all_parameters() const;
  static std::shared_ptr<comm::Group> make_group(
      const World& world,
      const Config& config);
  void make_partitions();
  std::unique_ptr<shard::Partition> make_partition(
      std::vector<shard::Parameter> parameters,
      bool trainable) const;
  shard::Partition& add(std::unique_ptr<shard::Partition> partition);
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
  void print() const;
  bool run_join();
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
  void adopt_thawed();
  void make_gatherer();
  void make_training_parts();
  void watch_gradients(const shard::Partition& partition);
  Agreement agree(bool joined);
  Agreement combine(
      const std::vector<Journal::Contribution>& contributions) const;
  // What every rank says, in the order of their numbers.
  std::vector<int64_t> exchange(const std::vector<int64_t>& own) const;
  void update_parameters(double norm);
  void check_may_update(double norm) const;
  void decide(double norm);
  void update_own_part();
  void update_part_of(int lost);
  void update_parts_of_the_lost(const comm::Group& survivors);
  std::vector<int> ranks_of(const comm::Group& survivors) const;
  std::vector<int> holders(const comm::Group& survivors) const;
  struct Known;
  Known ask_how_far_all_are(comm::Group& survivors) const;
  bool keeps_copies() const;
  void send_means();
  void send_copies() const;
  void send_updated() const;
  void count_sent_by_others() const;
  void await_all_updates(const std::exception_ptr& failure);
  void publish_parameters();
  void count_update();
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
  bool has_own_optimizer_ = false; // the program's
  std::shared_ptr<Optimizer> optimizer_;
  int num_states_ = 0; // of the optimizer, per parameter
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
  // Uses the reducer.
  std::unique_ptr<observe::GradientObserver> gradient_observer_ =
      std::make_unique<observe::GradientObserver>();

  // What comes out of a frozen partition, until all ranks have it.
  struct Thawing {
    const shard::Partition* from = nullptr;
    std::vector<std::unique_ptr<shard::Partition>> to; // the first is trained
  };
  Thawing being_thawed_;
  int64_t num_thawed_ = 0; // partitions

  Admission admission_;
  int64_t micro_step_ = 0; // backward calls in this round
  int64_t global_step_ = 0;
  uint64_t round_ = 0;
  StepResult result_;
  Decision decision_;
  int64_t control_bytes_ = 0;
  int64_t copied_bytes_ = 0; // means that came for copies kept here
  std::exception_ptr refused_; // of this round: told when it is over
  std::exception_ptr failure_; // of ranks that could not go on together
  bool has_module_ = false; // its parameters are in these partitions
  std::shared_ptr<const bool> alive_ = std::make_shared<bool>(true);
};

} // namespace zero::engine
