// Defines Succession: an engine that goes on when ranks are lost. It has one
// EngineState after another, each on those who are left of the ranks before.
//
// Note [Succession]
// When a call finds that a rank is lost, the world shrinks, the round is
// settled (recover.cpp), and those who are left fill a new state out of the old
// one's shared memory. When all have done so they change over, each for itself.
// If another one is lost on the way, some may have changed over and others not:
// those then do it too, since who has changed over has seen everybody complete
// the new state. Until then nobody has touched the old one.
#pragma once

#include <zero/engine.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/world_state.h"
#include "engine/engine_state.h"

namespace zero::engine {

class Succession : private comm::Dependent {
 public:
  // Collective, as Engine's.
  Succession(
      const World& world,
      std::shared_ptr<torch::nn::Module> module,
      const Config& config,
      std::shared_ptr<Optimizer> optimizer);
  ~Succession() override;
  Succession(const Succession&) = delete;
  Succession& operator=(const Succession&) = delete;

  // The present one.
  EngineState& state() {
    return *state_;
  }

  void backward(const at::Tensor& loss);
  StepResult step();
  void join();
  void zero_grad();
  void recover();

  // How to load what was saved last into a state, collectively; for when
  // nobody who is left has what the lost ones had.
  using Reload = std::function<LoadedCheckpoint(EngineState&)>;
  void remember_saved(Reload reload) {
    reload_ = std::move(reload);
  }

  const std::vector<Recovery>& recoveries() const {
    return recoveries_;
  }

 private:
  bool can_go_on() const;
  // Rethrows what it is called to handle if that cannot be.
  void go_on();
  void go_on_with(const std::shared_ptr<comm::Group>& survivors) override;
  void go_back_with(comm::Group& survivors);
  void change_over();
  void tell(const Recovery& recovery, const std::string& who) const;
  StepResult abandoned();
  void throw_what_the_round_ended_with();

  std::shared_ptr<comm::WorldState> world_;
  std::unique_ptr<EngineState> state_;
  std::unique_ptr<EngineState> next_; // complete on this rank
  int64_t generation_ = 0; // how often the state has changed
  bool is_abandoned_ = false; // the round, and step() has not said so yet
  EngineState::Settled settled_; // how it left the last round, to be told
  Reload reload_; // of what was saved or loaded last; empty: nothing was
  // What those who are left went back to, until a recovery tells of it.
  std::optional<LoadedCheckpoint> loaded_;
  int64_t steps_lost_ = 0; // by that, until step() has said so
  std::vector<Recovery> recoveries_;
};

} // namespace zero::engine
