// Newcomers join ranks that train: at every stage, while one or the other is
// killed at every moment of it. Those who go on have the parameters that plain
// libtorch gets from the same batches.
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include "base/failpoint.h"
#include "comm/ranks.h"
#include "engine/changing_ranks.h"
#include "engine/models.h"
#include "engine/oracle.h"
#include "engine/settings.h"
#include "thoroughness.h"

namespace zero::test::newcomer {
namespace {

constexpr int kNumSteps = 7;
constexpr int kMaxNewcomers = 8;

int id_of(const World& world) {
  return comm::state_of(world)->membership->id();
}

std::vector<int> ids_of(const World& world) {
  return comm::state_of(world)->current()->segment().ids();
}

// Until each of the newcomers is in, waits, or is dead: so that a run of a few
// steps has them in it.
void await_newcomers(const World& world, int num_newcomers) {
  const auto& state = *comm::state_of(world);
  const auto& roster = state.membership->roster();
  const auto is_one_on_its_way = [&] {
    int num_settled = 0;
    for (int id = roster.size(); id < roster.num_ids(); ++id) {
      num_settled += roster.gone(id) || !roster.is_joining(id) ? 1 : 0;
    }
    return num_settled < num_newcomers;
  };
  while (is_one_on_its_way() && !state.current()->is_guest_waiting()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Who took part in each step, as one rank has seen it.
using Who = std::vector<std::vector<int>>;

Who train(
    const World& world,
    const Model& model,
    Engine& engine,
    int num_newcomers) {
  Who who;
  while (engine.global_step() < kNumSteps) {
    if (engine.global_step() > 0) {
      await_newcomers(world, num_newcomers);
    }
    const auto step = static_cast<int>(engine.global_step());
    const auto before = ids_of(world);
    const size_t num_recoveries = engine.recoveries().size();
    StepResult result;
    for (int micro = 0; !result.updated && !result.abandoned; ++micro) {
      engine.backward(model.loss(batch_seed(step, micro, id_of(world))));
      result = engine.step();
    }
    EXPECT_EQ(engine.global_step(), step + (result.updated ? 1 : 0));
    EXPECT_EQ(result.step, engine.global_step());
    if (result.updated) {
      // A round that a loss did not abandon had the lost one in it.
      who.push_back(
          engine.recoveries().size() == num_recoveries ? ids_of(world)
                                                       : before);
    }
  }
  return who;
}

void expect_same_parameters(const World& world, const torch::nn::Module& own) {
  for (const auto& parameter : own.parameters()) {
    const at::Tensor first =
        parameter.detach().clone(at::MemoryFormat::Contiguous);
    world.communicator().broadcast(first, 0).wait();
    EXPECT_TRUE(first.equal(parameter.detach()));
  }
}

struct Scenario {
  int num_ranks = 2;
  int num_newcomers = 1;
  std::string model = "moe";
  Config config;
  std::map<int, std::string> failpoints = {}; // by id
};

void be_a_rank(const World& world, const Scenario& run) {
  const int id = id_of(world);
  const auto failpoints = run.failpoints.find(id);
  base::set_failpoints(
      failpoints == run.failpoints.end() ? "" : failpoints->second);
  const bool is_newcomer = world.is_joining();
  EXPECT_EQ(is_newcomer, id >= run.num_ranks);
  // Its own values are not those that count.
  torch::manual_seed(is_newcomer ? 99 : 7);
  const Model model = make_model(run.model);
  Engine engine(world, model.module, run.config);
  EXPECT_FALSE(world.is_joining());
  if (is_newcomer) {
    EXPECT_GT(engine.global_step(), 0);
    EXPECT_EQ(
        engine.recoveries().front().joined, std::vector<int>{world.rank()});
  }
  const Who who = train(world, model, engine, run.num_newcomers);
  EXPECT_EQ(
      engine.recoveries().empty() ? world.size()
                                  : engine.recoveries().back().num_left,
      world.size());
  base::set_failpoints("");
  const auto guard = engine.gather(*model.module);
  expect_same_parameters(world, *model.module);
  if (!is_newcomer) {
    expect_plain_training_of(run.model, run.config, who, *model.module);
  }
  world.barrier(); // the world's own communicator works, too
}

// Returns which of them were killed. The others have ended well.
std::set<int> killed(const Scenario& run) {
  const Body body = [&](const World& world) { be_a_rank(world, run); };
  Processes ranks(run.num_ranks, body, {}, kMaxNewcomers);
  for (int i = 0; i < run.num_newcomers; ++i) {
    ranks.add(body);
  }
  std::set<int> dead;
  for (int id = 0; id < run.num_ranks + run.num_newcomers; ++id) {
    const int status = ranks.wait(id);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      dead.insert(id);
    } else {
      EXPECT_EQ(status, 0) << "id " << id;
    }
  }
  return dead;
}

std::string at(const std::string& point, int number) {
  return c10::str(point, ":kill@", number);
}

Config config_of(const Setting& setting) {
  Config config = adam_config(setting);
  config.libzero.consistency_check_every = 1;
  return config;
}

// Adam makes much of gradients that are nothing but rounding.
Config sgd_config_of(const Setting& setting) {
  Config config = plain_config(setting);
  config.optimizer.lr = 0.05;
  config.optimizer.momentum = 0.9;
  config.libzero.consistency_check_every = 1;
  return config;
}

TEST(Newcomer, JoinsAtEveryStage) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    EXPECT_TRUE(killed({.config = config_of(setting)}).empty());
  }
}

TEST(Newcomer, GetsBuffersAndTiedAndFrozenParameters) {
  for (const std::string model : {"resnet", "gpt", "odd"}) {
    for (const Setting setting : {Setting{1, true}, Setting{3, false}}) {
      SCOPED_TRACE(c10::str(model, ", ", setting));
      EXPECT_TRUE(
          killed({.model = model, .config = sgd_config_of(setting)}).empty());
    }
  }
}

TEST(Newcomer, JoinsRoundsOfSeveralMicroBatches) {
  for (const Setting setting :
       {Setting{0, true}, Setting{2, true}, Setting{3, false}}) {
    SCOPED_TRACE(c10::str(setting));
    EXPECT_TRUE(
        killed({.config = accumulating(config_of(setting), 3)}).empty());
  }
}

TEST(Newcomer, SeveralMayComeAtOnce) {
  EXPECT_TRUE(
      killed({.num_newcomers = 3, .config = config_of({2, true})}).empty());
}

TEST(Newcomer, OneRankThatIsLeftLetsItIn) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    EXPECT_TRUE(killed({.num_ranks = 1, .config = config_of(setting)}).empty());
  }
}

// The newcomer, or one of those who let it in, is killed at every moment of it.
void kill_at_moments(const Setting& setting, int id, int first) {
  for (int moment = first;; moment += one_of(3)) {
    SCOPED_TRACE(c10::str(setting, ", id ", id, ", moment ", moment));
    const auto dead = killed(
        {.num_ranks = 3,
         .config = config_of(setting),
         .failpoints = {{id, at("recovery.moment", moment)}}});
    if (dead.empty() || ::testing::Test::HasFailure()) {
      EXPECT_GT(moment, 8);
      return;
    }
    EXPECT_EQ(dead, std::set<int>{id});
  }
}

TEST(Newcomer, MayBeKilledWhileItJoins) {
  kill_at_moments({2, true}, 3, 1);
  kill_at_moments({3, false}, 3, 2);
  kill_at_moments({0, true}, 3, 3);
}

TEST(Newcomer, ThoseWhoLetItInMayBeKilled) {
  kill_at_moments({2, true}, 0, 1);
  kill_at_moments({1, false}, 0, 2);
  kill_at_moments({3, true}, 1, 3);
  kill_at_moments({3, false}, 2, 1);
}

// In the rounds after it has joined, too.
TEST(Newcomer, MayBeKilledWhenItTrains) {
  for (int moment = 1; moment < 200; moment += 23 * one_of(2)) {
    SCOPED_TRACE(moment);
    killed(
        {.num_ranks = 2,
         .config = config_of({moment % 4, moment % 3 != 0}),
         .failpoints = {{2, at("engine.moment", moment)}}});
  }
}

TEST(Newcomer, TwoLossesAtOnceWhileItJoins) {
  const auto dead = killed(
      {.num_ranks = 4,
       .num_newcomers = 2,
       .config = config_of({2, true}),
       .failpoints = {
           {0, at("recovery.moment", 3)},
           {2, at("recovery.moment", 3)},
           {4, at("recovery.moment", 6)}}});
  EXPECT_TRUE(dead.contains(0));
  EXPECT_TRUE(dead.contains(2));
}

// A lost rank's place is taken, the first one's too.
TEST(Newcomer, TakesThePlaceOfALostRank) {
  for (const auto& setting : all_settings()) {
    for (const int lost : {0, 1}) {
      SCOPED_TRACE(c10::str(setting, ", rank ", lost));
      const Scenario run{
          .num_ranks = 3,
          .config = config_of(setting),
          .failpoints = {{lost, at("engine.moment", 10)}}}; // in step 1
      const Body body = [&](const World& world) {
        be_a_rank(world, run);
        EXPECT_EQ(world.size(), 3);
      };
      Processes ranks(run.num_ranks, body, {}, kMaxNewcomers);
      EXPECT_EQ(WTERMSIG(ranks.wait(lost)), SIGKILL);
      const int newcomer = ranks.add(body);
      for (int id = 0; id <= newcomer; ++id) {
        EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
      }
    }
  }
}

TEST(Newcomer, LearnsRatesAndTheirCounts) {
  const Body body = [](const World& world) {
    const bool is_newcomer = world.is_joining();
    const Model model = make_model("moe");
    Engine engine(world, model.module, config_of({3, true}));
    if (!is_newcomer) {
      engine.set_lr(0.125);
    }
    train(world, model, engine, 1);
    EXPECT_EQ(engine.lr(), 0.125);
    EXPECT_EQ(world.size(), 3);
  };
  Processes ranks(2, body, {}, kMaxNewcomers);
  ranks.add(body);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
  }
}

// What was frozen when the program began is trained since.
TEST(Newcomer, TrainsWhatWasThawedBefore) {
  for (const Setting setting : {Setting{1, true}, Setting{3, false}}) {
    SCOPED_TRACE(c10::str(setting));
    const Body body = [&](const World& world) {
      const bool is_newcomer = world.is_joining();
      const Model model = make_model("odd");
      Engine engine(world, model.module, sgd_config_of(setting));
      if (!is_newcomer) {
        for (const auto& parameter : model.module->parameters()) {
          parameter.set_requires_grad(true);
        }
      }
      train(world, model, engine, 1);
      for (const auto& parameter : model.module->parameters()) {
        EXPECT_TRUE(parameter.requires_grad());
      }
      const auto guard = engine.gather(*model.module);
      expect_same_parameters(world, *model.module);
      EXPECT_EQ(world.size(), 3);
    };
    Processes ranks(2, body, {}, kMaxNewcomers);
    ranks.add(body);
    for (int id = 0; id < 3; ++id) {
      EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
    }
  }
}

TEST(Newcomer, JoinsAllEnginesOfAProcess) {
  const Body body = [](const World& world) {
    const Model first = make_model("moe");
    const Model second = make_model("odd");
    Engine engine(world, first.module, config_of({2, true}));
    Engine other(world, second.module, config_of({3, false}));
    while (other.global_step() < kNumSteps) {
      if (other.global_step() > 0) {
        await_newcomers(world, 1);
      }
      const auto seed =
          batch_seed(static_cast<int>(other.global_step()), 0, id_of(world));
      engine.run([&](int64_t) { return first.loss(seed); });
      other.run([&](int64_t) { return second.loss(seed); });
      EXPECT_EQ(engine.global_step(), other.global_step());
    }
    EXPECT_EQ(world.size(), 3);
    const auto guard = engine.gather(*first.module);
    expect_same_parameters(world, *first.module);
  };
  Processes ranks(2, body, {}, kMaxNewcomers);
  ranks.add(body);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
  }
}

// Ranks that have no more batches let it in, too.
TEST(Newcomer, JoinsRanksThatAreInJoin) {
  const Body body = [](const World& world) {
    const Model model = make_model("moe");
    Engine engine(world, model.module, config_of({2, true}));
    const int id = id_of(world);
    while (engine.global_step() < kNumSteps && id != 1) {
      if (engine.global_step() > 0) {
        await_newcomers(world, 1);
      }
      engine.run([&](int64_t) { return model.loss(7); });
    }
    engine.join();
    EXPECT_EQ(engine.global_step(), kNumSteps);
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(engine.recoveries().size(), 1U);
  };
  Processes ranks(2, body, {}, kMaxNewcomers);
  ranks.add(body);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
  }
}

// One that has another module leaves again, and the others do not notice.
TEST(Newcomer, IsRefusedIfItDiffers) {
  for (const std::string what : {"module", "configuration", "optimizer"}) {
    const Body body = [&](const World& world) {
      const bool is_newcomer = world.is_joining();
      Config config = config_of({2, true});
      if (is_newcomer && what == "configuration") {
        config.gradient_clipping = 0.25;
      }
      const Model model =
          make_model(is_newcomer && what == "module" ? "odd" : "moe");
      class Signs : public Optimizer {
       public:
        int num_states() const override {
          return 0;
        }
        void update(const Slice& slice) override {
          slice.parameter.sub_(slice.gradient.sign(), slice.lr);
        }
      };
      const auto optimizer = is_newcomer && what == "optimizer"
          ? std::make_shared<Signs>()
          : nullptr;
      if (is_newcomer) {
        try {
          const Engine engine(world, model.module, config, optimizer);
          ADD_FAILURE() << "it joined";
        } catch (const ConfigError& error) {
          EXPECT_NE(
              std::string(error.what()).find("has another " + what),
              std::string::npos)
              << error.what();
        }
        return;
      }
      Engine engine(world, model.module, config);
      train(world, model, engine, 1);
      EXPECT_EQ(world.size(), 2);
    };
    Processes ranks(2, body, {}, kMaxNewcomers);
    ranks.add(body);
    for (int id = 0; id < 3; ++id) {
      EXPECT_EQ(ranks.wait(id), 0) << "id " << id;
    }
  }
}

TEST(Newcomer, CannotCommunicateBeforeItIsIn) {
  const Body body = [](const World& world) {
    if (world.is_joining()) {
      EXPECT_THROW(world.barrier(), ConfigError);
      EXPECT_EQ(world.size(), 2);
      EXPECT_EQ(world.rank(), 1);
      return;
    }
    const auto& roster = comm::state_of(world)->membership->roster();
    while (roster.num_ids() == 1 || !roster.gone(1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  Processes ranks(1, body, {}, kMaxNewcomers);
  ranks.add(body);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

// Nobody is left who could let it in.
TEST(Newcomer, FailsIfAllOthersAreGone) {
  const Body body = [](const World& world) {
    const Model model = make_model("moe");
    if (world.is_joining()) {
      EXPECT_THROW(Engine(world, model.module, config_of({2, true})), PeerLost);
      return;
    }
    const auto group = comm::state_of(world)->current();
    while (!group->is_guest_waiting()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::raise(SIGKILL);
  };
  Processes ranks(1, body, {}, kMaxNewcomers);
  ranks.add(body);
  EXPECT_EQ(WTERMSIG(ranks.wait(0)), SIGKILL);
  EXPECT_EQ(ranks.wait(1), 0);
}

} // namespace
} // namespace zero::test::newcomer
