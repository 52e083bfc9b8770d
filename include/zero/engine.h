// Defines Engine: trains a module with ZeRO. The module stays as it is: nothing
// is wrapped, no forward is edited.
//
//   zero::World world = zero::init();
//   Net net;
//   auto config = zero::Config::from_file("zero.json");
//   zero::Engine engine(world, net.ptr(), config);
//   for (auto& [x, y] : batches(world.rank(), world.size())) {
//     auto loss = torch::cross_entropy_loss(net->forward(x), y);
//     engine.backward(loss);
//     zero::StepResult result = engine.step();
//   }
//
// Ranks may differ in what their forward does, in which parameters get
// gradients, and in how many batches they have; backward(), step() and join()
// are what they meet in. If a rank is lost, the others go on without it, and
// let one in that is started in its place (docs/durability.md). docs/guide.md
// tells the rest.
//
// The forward may run in several threads. Calls of one engine come from one
// thread at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <zero/checkpoint.h>
#include <zero/config.h>
#include <zero/optimizer.h>
#include <zero/world.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace zero {

namespace engine {
class Succession;
}
namespace checkpoint {
class BackgroundSaver;
}

struct StepResult {
  bool updated = false; // false while gradients accumulate
  bool abandoned = false; // the round must be run again, from its first batch
  int64_t steps_lost = 0; // then: updates before it that are undone, too
  double grad_norm = 0; // before clipping, of the mean over all ranks
  double lr = 0; // that this update had
  int64_t step = 0; // updates so far, this one too
};

// What it took to go on when ranks were lost or newcomers let in, as this rank
// saw it.
struct Recovery {
  std::vector<int> ranks; // those lost, as they were numbered
  std::vector<int> joined; // newcomers, as they are numbered from then on
  int64_t step = 0; // updates before it
  bool is_round_abandoned = false; // it was run again; else it was completed
  int num_left = 0; // ranks that go on, newcomers too
  // Over several hosts, if nobody who is left had what the lost ones had: the
  // checkpoint that they went back to, and the updates since.
  std::optional<LoadedCheckpoint> loaded = {};
  int64_t steps_lost = 0;
  double seconds = 0; // from when this rank noticed until it went on
};

// Bytes of this rank. Where ranks of one machine share parameters, each counts
// its own slice, so that the sum over the ranks is what the machine holds.
struct MemoryAccount {
  int64_t parameters = 0;
  int64_t gathered = 0; // whole parameters that were gathered and are here
  int64_t gathered_peak = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t copies = 0; // of what other hosts have, for when one is lost
  int64_t buffers = 0; // gradients on their way to other ranks
  int64_t spilled = 0; // gradients kept back because ranks differ
};

// Bytes this rank has received since reset_traffic().
struct EngineTraffic {
  int64_t intra_node = 0;
  int64_t inter_node = 0;
  int64_t copies = 0; // of these, for copies that are kept here
  int64_t control = 0; // agreement on norms and the like
};

enum class Access {
  read,
  write, // what rank 0 has written is everybody's when the guard ends
};

// Full parameters, for as long as it lives.
class [[nodiscard]] GatherGuard {
 public:
  GatherGuard(GatherGuard&& other) noexcept;
  GatherGuard& operator=(GatherGuard&&) = delete;
  ~GatherGuard();

  // Ends it early; with Access::write, errors are thrown here.
  void release();

 private:
  friend class Engine;
  explicit GatherGuard(std::function<void()> end);
  std::function<void()> end_;
};

class Engine {
 public:
  // Collective: every rank builds the same module; the values are those of rank
  // 0. The optimizer is the configuration's, unless one is given. In a process
  // that takes the place of a lost rank it waits until the others begin a
  // round, and the module, global_step() and all else are theirs then.
  // Throws: ConfigError, IoError, PeerLost.
  Engine(
      const World& world,
      std::shared_ptr<torch::nn::Module> module,
      const Config& config = {},
      std::shared_ptr<Optimizer> optimizer = nullptr);
  ~Engine(); // gives the module's parameters memory of their own again
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Computes gradients of loss / gradient_accumulation_steps, and reduces them
  // to their owners while it runs.
  void backward(const at::Tensor& loss);

  // Updates the parameters when all micro-batches of the round are done; else
  // it does nothing.
  StepResult step();

  // A whole round: calls forward(micro_step), which returns the loss, for each
  // micro-batch, with backward and step; an abandoned round is run again.
  StepResult run(const std::function<at::Tensor(int64_t)>& forward);

  // Forgets the gradients of the round. Called by every rank, or by none.
  void zero_grad();

  // This rank has no more batches: takes part in the rounds of the others,
  // without gradients, until every rank has called it.
  void join();

  int64_t global_step() const;

  // Micro-batches of a round. Every rank sets the same number, between two
  // rounds; by it those who are left can do what a lost rank would have done.
  int64_t accumulation_steps() const;
  void set_accumulation_steps(int64_t steps);

  // After PeerLost in a call on a communicator: goes on without the lost, as
  // backward() and step() do by themselves. The round is to be run from its
  // first micro-batch. Collective over those who are left, each of which calls
  // this or is in such a call. Does nothing if nobody is lost. Throws: PeerLost
  // if that cannot be, such as where MPI does not survive it; in a handler,
  // what that handles.
  void recover();

  // All times that ranks were lost and the others went on, or newcomers came;
  // on a newcomer, its own coming first.
  const std::vector<Recovery>& recoveries() const;

  // The learning rate of the next update. A schedule that sets rates of its own
  // goes on to do so whatever set_lr() says.
  double lr() const;
  void set_lr(double lr); // of all groups
  // Of one group: those of parameter_groups in order, then all other
  // parameters.
  void set_lr(int group, double lr);

  MemoryAccount memory() const;
  EngineTraffic traffic() const;
  void reset_traffic();

  // Makes full parameters readable. With Access::write it is collective.
  GatherGuard gather(torch::nn::Module& module, Access access = Access::read);
  GatherGuard gather(
      const std::vector<at::Tensor>& parameters,
      Access access = Access::read);

  // The mean over the ranks of a parameter's gradient, between the last
  // backward() of a round and step(). Undefined if no rank has had one. Any
  // rank may call it, once all have left that backward() and while none has
  // begun another.
  at::Tensor full_gradient(const at::Tensor& parameter) const;

  // Collective, between two rounds: all that training goes on from, as the
  // newest checkpoint in the folder, complete and on the disk when it returns.
  // What was there before is there until then. Returns where it is.
  // Throws: IoError, on every rank; ConfigError in the middle of a round.
  std::string save(const std::string& folder, const SaveOptions& options = {})
      const;

  // The same while training goes on: returns when this rank's part is copied.
  // One at a time: another one waits for it, and so does the engine's end.
  SaveHandle save_async(
      const std::string& folder,
      const SaveOptions& options = {});

  // Collective: goes on from the newest checkpoint in the folder, or from the
  // one that the folder is, with any number of ranks, at any stage. One that is
  // damaged is passed over with a warning. Gradients of an unfinished round are
  // forgotten. Throws, on every rank: IoError if there is none; CorruptionError
  // if none is whole, and the engine is of no more use; ConfigError naming
  // every parameter that does not fit.
  LoadedCheckpoint load(
      const std::string& folder,
      const LoadOptions& options = {});

  // Collective: rank 0 writes parameters and buffers under the module's own
  // names. Throws: IoError.
  void export_safetensors(const std::string& path) const;

 private:
  std::unique_ptr<engine::Succession> succession_;
  std::shared_ptr<checkpoint::BackgroundSaver> saver_; // once it is needed
};

} // namespace zero
