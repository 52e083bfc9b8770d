// What the configuration promises of a running engine.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/zero.h>

#include <fstream>
#include <thread>

#include "comm/ranks.h"
#include "engine/models.h"
#include "engine/settings.h"

namespace zero::test {
namespace {

constexpr Setting kPartitioned{3, false};

TEST(Configuration, ARankThatDoesNotComeIsAnErrorAfterTheProgressTimeout) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      Config config = plain_config(setting);
      config.libzero.progress_timeout_seconds = 0.5;
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), config);
      if (world.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::seconds(2));
        return;
      }
      try {
        engine.step();
        ADD_FAILURE();
      } catch (const CommTimeout& error) {
        EXPECT_EQ(error.rank(), 1) << error.what();
        EXPECT_EQ(error.operation(), "step");
      }
    });
  }
}

TEST(Configuration, AStoppedRankIsLostAfterTheTimeoutOfTheFile) {
  const auto start = std::chrono::steady_clock::now();
  Processes ranks(2, [](World world) {
    Config config = plain_config({2, true});
    config.libzero.timeout_seconds = 1;
    config.libzero.on_peer_lost = LibzeroConfig::OnPeerLost::raise;
    auto net = build<OddNet>();
    Engine engine(world, net.ptr(), config);
    if (world.rank() == 1) {
      ::raise(SIGSTOP);
    }
    try {
      engine.step();
      ADD_FAILURE();
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
    }
  });
  EXPECT_EQ(ranks.wait(0), 0);
  // Without it the world's own 10 s would pass at least.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(9));
}

TEST(Configuration, ANormThatIsNotFiniteRaisesBeforeTheUpdate) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      Config config = plain_config(setting);
      config.libzero.on_nonfinite = LibzeroConfig::OnNonfinite::raise;
      auto net = build<OddNet>();
      Engine engine(world, net.ptr(), config);
      const auto values = [&] {
        const auto guard = engine.gather(*net);
        std::vector<at::Tensor> copies;
        for (const auto& parameter : net->parameters()) {
          copies.push_back(parameter.detach().clone());
        }
        return copies;
      };
      const auto before = values();
      // The root of nothing is finite, its gradient on rank 1 is not.
      const double factor = world.rank() == 1 ? 0 : 1;
      const at::Tensor sum = net(torch::ones({2, 7})).square().sum();
      engine.backward((factor * sum).sqrt());
      try {
        engine.step();
        ADD_FAILURE();
      } catch (const NonfiniteError& error) {
        EXPECT_NE(
            std::string(error.what()).find("step 1: the norm of the gradients"),
            std::string::npos)
            << error.what();
      }
      EXPECT_EQ(engine.global_step(), 0);
      const auto after = values();
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_TRUE(at::equal(before[i], after[i]));
      }
      // Training goes on.
      engine.backward(net(torch::ones({2, 7})).square().sum());
      EXPECT_TRUE(engine.step().updated);
      EXPECT_EQ(engine.global_step(), 1);
    });
  }
}

TEST(Configuration, StepsPerPrintPrintsOnRankZero) {
  testing::internal::CaptureStderr();
  run_threads(2, [](World world) {
    Config config = plain_config({1, true});
    config.steps_per_print = 2;
    auto net = build<OddNet>();
    Engine engine(world, net.ptr(), config);
    for (int step = 0; step < 5; ++step) {
      engine.backward(net(torch::ones({2, 7})).sum());
      engine.step();
    }
  });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      text.find("[rank 0/2] step 2: learning rate 0.5, gradient norm "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("step 4"), std::string::npos) << text;
  EXPECT_EQ(text.find("step 3"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 1"), std::string::npos) << text;
}

TEST(Configuration, MaxLiveParametersLimitsWhatIsGathered) {
  run_threads(2, [](World world) {
    const auto peak = [&](int64_t live) {
      Config config = plain_config(kPartitioned);
      config.libzero.gather_budget.share = 1;
      config.zero_optimization.stage3_max_live_parameters = live;
      const Model model = make_model("gpt");
      Engine engine(world, model.module, config);
      for (uint64_t step = 0; step < 3; ++step) {
        engine.backward(model.loss(step));
        engine.step();
      }
      return engine.memory().gathered_peak;
    };
    EXPECT_LT(peak(3000), peak(1'000'000) / 2);
  });
}

TEST(Configuration, FullGradientsThatAccumulateAreCounted) {
  for (const auto& setting : all_settings()) {
    SCOPED_TRACE(c10::str(setting));
    run_threads(2, [&](World world) {
      Config config = plain_config(setting);
      config.libzero.accumulate = LibzeroConfig::Accumulate::full;
      config.train_micro_batch_size_per_gpu = 2;
      config.gradient_accumulation_steps = 2;
      torch::nn::Linear net(32, 16);
      Engine engine(world, net.ptr(), config);
      const auto before = engine.memory().gradients;
      engine.backward(net(torch::ones({2, 32})).sum());
      const int64_t full = setting.stage >= 2 ? 4 * (32 * 16 + 16) : 0;
      EXPECT_EQ(engine.memory().gradients, before + full);
      EXPECT_THROW(engine.full_gradient(net->weight), ConfigError);
      engine.step();
      engine.backward(net(torch::ones({2, 32})).sum());
      EXPECT_EQ(engine.memory().gradients, before);
      EXPECT_TRUE(engine.full_gradient(net->weight).defined());
      engine.step();
    });
  }
}

TEST(Configuration, AGuardMayOutliveItsEngine) {
  for (const auto& setting : all_settings()) {
    run_threads(2, [&](World world) {
      torch::nn::Linear net(4, 4);
      auto engine =
          std::make_unique<Engine>(world, net.ptr(), plain_config(setting));
      const auto guard = engine->gather(*net, Access::write);
      engine.reset();
      EXPECT_EQ(net->weight.sum().defined(), true);
    });
  }
}

// No more address space than there is, and a parameter that does not fit in.
TEST(Configuration, NoMemoryForAParameterIsAnErrorThatNamesIt) {
  Processes ranks(1, [](World world) {
    torch::nn::Linear net(4096, 4096);
    Config config = plain_config(kPartitioned);
    config.libzero.gather_budget.share = 0;
    Engine engine(world, net.ptr(), config);
    const at::Tensor x = torch::ones({1, 4096});
    std::ifstream status("/proc/self/statm");
    rlim_t pages = 0;
    status >> pages;
    const rlim_t limit =
        pages * static_cast<rlim_t>(::getpagesize()) + (8 << 20);
    const rlimit address_space{limit, limit};
    ::setrlimit(RLIMIT_AS, &address_space);
    const c10::InferenceMode no_grad;
    try {
      net(x);
      ADD_FAILURE();
    } catch (const std::exception& error) {
      const std::string what = error.what();
      EXPECT_NE(
          what.find("no memory for the 67108864 bytes of parameter 'weight'"),
          std::string::npos)
          << what;
    }
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

} // namespace
} // namespace zero::test
