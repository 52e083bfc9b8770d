// A rank is killed in the middle of its update: from shared memory alone the
// survivor produces the parameters that the update would have given.
#include <sys/wait.h>

#include <csignal>

#include "comm/ranks.h"
#include "engine/engine_state.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

constexpr double kLr = 0.5;
constexpr double kMomentum = 0.9;

// SGD with momentum that kills its process in one of its updates, half done.
class Mortal : public Optimizer {
 public:
  explicit Mortal(int updates_to_live) : updates_to_live_(updates_to_live) {}
  int num_states() const override {
    return 1;
  }
  void update(const Slice& slice) override {
    const int64_t half = slice.parameter.numel() / 2;
    apply(slice, 0, half);
    if (--updates_to_live_ == 0) {
      ::raise(SIGKILL);
    }
    apply(slice, half, slice.parameter.numel() - half);
  }

 private:
  static void apply(const Slice& slice, int64_t begin, int64_t numel) {
    at::Tensor state = slice.states[0].narrow(0, begin, numel);
    state.mul_(kMomentum).add_(slice.gradient.narrow(0, begin, numel));
    slice.parameter.narrow(0, begin, numel).sub_(state, slice.lr);
  }
  int updates_to_live_;
};

struct VectorImpl : torch::nn::Module {
  VectorImpl() {
    values = register_parameter("values", torch::zeros({1000}));
  }
  at::Tensor values;
};
TORCH_MODULE(Vector);

at::Tensor gradient_of(int rank) {
  return random_floats({1000}, 77U + static_cast<unsigned>(rank));
}

// Returns whether rank 1 died before it was through.
bool expect_finished_by_the_survivor(int stage, int updates_to_live) {
  Config config = plain_config({stage, true});
  config.optimizer.lr = kLr;
  Processes ranks(2, [&](World world) {
    const bool mortal = world.rank() == 1;
    Vector module;
    engine::EngineState engine(
        world,
        module.ptr(),
        config,
        std::make_shared<Mortal>(mortal ? updates_to_live : -1));
    bool lost = false;
    int steps = 0;
    try {
      for (; steps < 2; ++steps) {
        engine.backward((module->values * gradient_of(world.rank())).sum());
        engine.step();
      }
    } catch (const PeerLost&) {
      lost = true;
    }
    if (lost) {
      engine.update().run(1, engine.decision());
      ++steps; // this one is complete now, though nobody has counted it
    }
    const at::Tensor mean = (gradient_of(0) + gradient_of(1)) / 2;
    at::Tensor state = torch::zeros({1000});
    at::Tensor expected = torch::zeros({1000});
    for (int step = 0; step < steps; ++step) {
      state = state * kMomentum + mean;
      expected = expected - kLr * state;
    }
    EXPECT_TRUE(torch::allclose(module->values, expected, 1e-5, 1e-6))
        << "killed in its update " << updates_to_live;
  });
  EXPECT_EQ(ranks.wait(0), 0) << "rank 0, update " << updates_to_live;
  return WIFSIGNALED(ranks.wait(1));
}

TEST(UnfinishedUpdate, IsFinishedBySurvivorsWhereverItStopped) {
  for (const int stage : {1, 2, 3}) {
    int deaths = 0;
    while (expect_finished_by_the_survivor(stage, deaths + 1) &&
           !HasFailure()) {
      ++deaths;
    }
    // Buckets of 64 elements: 16 slices in each of two steps.
    EXPECT_EQ(deaths, 32) << "stage " << stage;
  }
}

} // namespace
} // namespace zero::test
