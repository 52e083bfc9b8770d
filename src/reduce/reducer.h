// Defines Reducer: takes each gradient when backward has completed it, and
// brings the mean over the ranks to whoever owns it. Used by the engine; the
// observers call it from autograd.
//
//   reducer.begin_pass();
//   ... backward, which calls gradient_ready(parameter) ...
//   reducer.finish_pass();          // this rank's slices have the means
//   reducer.close_round();          // at the step: no rank has more to give
//
// Note [Gradients]
// Where every rank keeps full gradients (stages 0 and 1) they are moved into
// the window as they come, and `grad` of the parameter is a view of it. Where
// it does not, a gradient is held until its buckets are reduced, then freed:
// other ranks get their slices through slots, this rank takes its own from what
// is held.
// A parameter may get another gradient after that in the same backward (tied
// weights in segments that the user computes again): it is late, and reduced in
// a pass of its own.
//
// Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/watch.h"
#include "comm/window_state.h"
#include "reduce/exchange.h"
#include "reduce/gradient_flags.h"
#include "reduce/mean_kernel.h"
#include "shard/partition.h"

namespace zero::reduce {

struct ReducerOptions {
  MeanScale scale;
  double norm_type = 2;
  // Whether buckets are published while backward runs, or all at its end.
  bool overlap = true;
};

class Reducer : private ExchangeHandler {
 public:
  // Collective. The partitions are trainable and outlive it.
  Reducer(
      const std::vector<const shard::Partition*>& partitions,
      const std::shared_ptr<comm::Group>& group,
      const ReducerOptions& options);
  ~Reducer() override;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Collective, between passes: another partition, behind the others. What the
  // round has brought so far stays. A round that was closed is open again.
  void add(const shard::Partition* partition);

  void begin_pass();

  // Its `grad` is complete, in this backward. Takes it over. Also called
  // between passes, while gradients accumulate.
  void gradient_ready(ParameterId id);

  // Blocks until all ranks have reduced everything of this pass.
  void finish_pass();

  // Blocks until every rank has closed the round.
  void close_round();

  // After close_round(): whether any rank had a gradient for it in the round.
  bool has_gradient(ParameterId id) const;

  // After a pass: the mean of all ranks, in the shape of the parameter.
  // Undefined if no rank has had a gradient.
  at::Tensor full_gradient(ParameterId id) const;

  // After close_round(), where every rank updates everything for itself: copies
  // what other ranks have reduced. Nobody changes the means before all have.
  void gather_means();

  // Forgets the gradients of the round; the second one after an update.
  void discard();
  void next_round();

  // Of this round and the last: what had to be kept because ranks differ.
  int64_t spilled_bytes() const;
  int64_t buffer_bytes() const;
  // Of full gradients that are kept where they were computed, to be reduced
  // later.
  int64_t waiting_bytes() const;

  // Whether the round has had a pass.
  bool has_reduced() const {
    return num_passes_ > 0;
  }
  // Between passes: whether gradients wait in the parameters.
  bool has_unreduced_gradients() const;

  // After close_round(). Throws: ConfigError naming every parameter for which
  // no rank has had a gradient.
  void check_all_have_gradients() const;

  // Of what this rank has reduced in the round, as optim::combine() takes it.
  double norm_power_sum() const;

 private:
  struct Bucket {
    int partition = 0;
    int number = 0; // in its partition
    int num_missing = 0; // parameters whose gradient is not ready
    bool reduced = false; // in this round
    double norm_power_sum = 0; // of this rank's slice, if it is reduced
  };
  struct Gradient {
    at::Tensor held; // in the parameter's layout and the state type
    bool ready = false; // in this pass
    bool in_window = false; // in this round, full gradients only
    int num_unreduced = 0; // buckets that still need `held`
    bool anywhere = false; // on any rank, in the round that was closed
  };

  void fill(int bucket, std::byte* to) override;
  void reduce(int bucket, const std::vector<Contribution>& contributions)
      override;
  void join(
      int bucket,
      const std::vector<Contribution>& contributions,
      int first) override;

  const shard::Partition& partition(int number) const {
    return *partitions_[static_cast<size_t>(number)];
  }
  Gradient& gradient(ParameterId id) {
    return gradients_[static_cast<size_t>(id.partition)]
                     [static_cast<size_t>(id.number)];
  }
  // Calls visit(id).
  template <class Visit>
  void for_each_parameter(Visit visit) const {
    for (int i = 0; i < static_cast<int>(partitions_.size()); ++i) {
      const int count = partition(i).layout().num_parameters();
      for (int number = 0; number < count; ++number) {
        visit(ParameterId{i, number});
      }
    }
  }

  // Calls visit(id, range) for the parameters that lie in a bucket, with the
  // part that does.
  template <class Visit>
  void for_each_part(const Bucket& bucket, Visit visit) const {
    const auto& layout = partition(bucket.partition).layout();
    const shard::Range whole = layout.bucket(bucket.number);
    for (int number = layout.first_parameter(whole);
         number < layout.num_parameters() &&
         layout.parameter(number).begin < whole.end;
         ++number) {
      const auto part = intersection(layout.parameter(number), whole);
      if (!part.empty()) {
        visit(ParameterId{bucket.partition, number}, part);
      }
    }
  }

  Bucket& bucket_at(int number) {
    return buckets_[static_cast<size_t>(number)];
  }
  int first_bucket(int partition) const {
    return first_buckets_[static_cast<size_t>(partition)];
  }

  void take(ParameterId id, const at::Tensor& grad);
  [[noreturn]] void refuse(const shard::Parameter& parameter, at::Layout layout)
      const;
  void move_into_window(ParameterId id, const at::Tensor& grad);
  void mark_ready(ParameterId id);
  void publish(int bucket);
  void reduce_part(
      Bucket& bucket,
      const shard::OwnedSlice& slice,
      const std::vector<const std::byte*>& inputs,
      const std::byte* addend) const;
  void let_go_of_held(const Bucket& bucket);
  void start_pass();
  void end_pass();
  void collect_the_rest(std::exception_ptr& refused);
  bool has_late_gradients() const;
  bool is_reduced(ParameterId id, const at::Tensor& grad) const;
  void set_aside_means();
  void add_buckets(const shard::Partition& partition);
  void connect();
  void show_gradients();

  std::vector<const shard::Partition*> partitions_;
  std::shared_ptr<comm::Group> group_;
  ReducerOptions options_;
  bool full_gradients_ = false;
  comm::Watch watch_;
  std::shared_ptr<comm::WindowState> slots_;
  std::vector<Bucket> buckets_;
  std::vector<int> first_buckets_; // by partition
  std::vector<std::vector<Gradient>> gradients_; // by partition
  std::vector<std::vector<at::Tensor>> set_aside_; // means of earlier passes
  std::unique_ptr<GradientFlags> flags_;
  std::unique_ptr<Exchange> exchange_;
  mutable std::mutex mutex_;
  int num_passes_ = 0; // in this round
  int64_t spilled_bytes_ = 0;
  int64_t last_spilled_bytes_ = 0;
};

} // namespace zero::reduce
