// Defines Succession: an engine that goes on when ranks are lost or come. It
// has one EngineState after another, each on those who are left of the ranks
// before, and newcomers.
//
// Note [Succession]
// When a call finds that a rank is lost, the world shrinks, the round is
// settled (recover.cpp), and those who are left fill a new state out of the old
// one's shared memory. When all have done so they change over, each for itself.
// If another one is lost on the way, some may have changed over and others not:
// those then do it too, since who has changed over has seen everybody complete
// the new state. Until then nobody has touched the old one.
//
// Note [Letting in]
// Newcomers (comm/world_state.h) come in the same way, where a round begins:
// not where one ends, since what ranks do together between two rounds, such as
// saving, a newcomer would miss, which begins at the top of the program's loop.
// What this rank had computed for the round is abandoned, so that all of them
// share the samples out anew. A newcomer has no state; the others tell it what
// is not in shared memory (handover.h), and fill its part. If it cannot take
// part, it leaves, which is a loss as any other. With several engines it is the
// last one made whose step() decides, when the others are between two rounds.
#pragma once

#include <zero/engine.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
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
  void join_the_others(EngineState::Newcomer newcomer);
  void require_all_engines() const;
  bool can_go_on() const;
  // Rethrows what it is called to handle if that cannot be.
  void go_on();
  void watch_for_newcomers();
  bool would_let_in() const;
  void let_in();
  struct Before {
    std::shared_ptr<comm::Group> group;
    uint64_t round = 0;
    int64_t step = 0;
    base::TimePoint since;
  };
  Before before() const;
  void remember(const Before& before);
  void tell(const Recovery& recovery, const comm::Group& before) const;
  void go_on_with(const std::shared_ptr<comm::Group>& survivors) override;
  bool is_between_rounds() const override;
  void make_next_with_newcomers(comm::Group& survivors);
  void go_back_with(comm::Group& survivors);
  void change_over();
  StepResult abandoned();
  void throw_what_the_round_ended_with();

  std::shared_ptr<comm::WorldState> world_;
  std::unique_ptr<EngineState> state_; // none while this rank is a newcomer
  std::unique_ptr<EngineState> next_; // complete on this rank
  std::optional<EngineState::Newcomer> newcomer_; // if it is one
  int64_t generation_ = 0; // how often the state has changed; told to newcomers
  bool is_abandoned_ = false; // the round, and step() has not said so yet
  EngineState::Settled settled_; // how it left the last round, to be told
  Reload reload_; // of what was saved or loaded last; empty: nothing was
  // What those who are left went back to, until a recovery tells of it.
  std::optional<LoadedCheckpoint> loaded_;
  int64_t steps_lost_ = 0; // by that, until step() has said so
  std::vector<Recovery> recoveries_;
};

} // namespace zero::engine
