// Copies that should be the same are compared where the configuration asks.
#include <zero/zero.h>

#include "comm/run_hosts.h"
#include "engine/error_of.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

Config checking(const Setting& setting) {
  Config config = plain_config(setting);
  config.optimizer.momentum = 0.9;
  config.libzero.consistency_check_every = 2;
  return config;
}

void step(const World& world, const Model& model, Engine& engine) {
  engine.backward(model.loss(static_cast<uint64_t>(world.rank())));
  engine.step();
}

TEST(Consistency, WhatIsTheSameIsFoundToBe) {
  at_every_stage(3, [](World world, const Setting& setting) {
    const Model model = make_model("odd");
    Engine engine(world, model.module, checking(setting));
    for (int i = 0; i < 4; ++i) {
      step(world, model, engine);
    }
    world.barrier();
  });
}

// One bit of rank 1's copy, behind everybody's back.
TEST(Consistency, ADifferenceIsNamedOnEveryRank) {
  for (const int stage : {0, 1, 2}) {
    run_threads(3, [&](World world) {
      const Model model = make_model("odd");
      Engine engine(world, model.module, checking({stage, false}));
      step(world, model, engine);
      if (world.rank() == 1) {
        // Frozen, so that no update writes over it.
        auto* data = model.module->named_parameters()["frozen.bias"]
                         .mutable_data_ptr<float>();
        data[0] += 1;
      }
      world.barrier();
      const std::string error = error_of([&] { step(world, model, engine); });
      EXPECT_NE(
          error.find("parameter 'frozen.bias': rank 1 has other values than "
                     "rank 0"),
          std::string::npos)
          << stage << ": " << error;
      EXPECT_EQ(error.find("'first"), std::string::npos) << error;
      world.barrier();
    });
  }
}

TEST(Consistency, HostsAreComparedWithEachOther) {
  run_hosts({0, 0, 1, 1}, [](const HostRank& rank) {
    const Model model = make_model("odd");
    Engine engine(rank.world, model.module, checking({2, true}));
    for (int i = 0; i < 3; ++i) {
      step(rank.world, model, engine);
    }
    rank.world.barrier();
    if (rank.world.rank() == 3) {
      model.module->named_parameters()["frozen.bias"]
          .mutable_data_ptr<float>()[0] += 1;
    }
    rank.world.barrier();
    const std::string error =
        error_of([&] { step(rank.world, model, engine); });
    EXPECT_NE(error.find("'frozen.bias': rank"), std::string::npos) << error;
    rank.world.barrier();
  });
}

} // namespace
} // namespace zero::test
