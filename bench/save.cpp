// Times Engine::save(), save_async() and load() of a model with --parameters
// elements and Adam's state, and says so as a line of JSON from rank 0.
//
//   zero run -n 2 build/bin/save --folder /data/tmp --parameters 50000000
#include <torch/torch.h>
#include <zero/zero.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

double seconds_of(const std::function<void()>& part) {
  const auto start = std::chrono::steady_clock::now();
  part();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Times checkpoints");
  std::string folder;
  int64_t parameters = 50'000'000;
  int rounds = 3;
  int stage = 2;
  app.add_option("--folder", folder)->required();
  app.add_option("--parameters", parameters);
  app.add_option("--rounds", rounds);
  app.add_option("--stage", stage);
  CLI11_PARSE(app, argc, argv);
  try {
    const zero::World world = zero::init();
    constexpr int64_t kLayers = 10;
    torch::nn::Sequential net;
    for (int64_t i = 0; i < kLayers; ++i) {
      net->push_back(torch::nn::Linear(
          torch::nn::LinearOptions(1000, parameters / kLayers / 1000)
              .bias(false)));
    }
    zero::Config config;
    config.zero_optimization.stage = stage;
    zero::Engine engine(world, net.ptr(), config);
    nlohmann::json times{
        {"save", {}}, {"blocked", {}}, {"async", {}}, {"load", {}}};
    const std::string path = folder + "/libzero";
    for (int round = 0; round < rounds; ++round) {
      world.barrier();
      times["save"].push_back(
          seconds_of([&] { engine.save(path, {.keep = 1}); }));
      world.barrier();
      times["async"].push_back(seconds_of([&] {
        std::optional<zero::SaveHandle> handle;
        times["blocked"].push_back(
            seconds_of([&] { handle = engine.save_async(path, {.keep = 1}); }));
        handle->wait();
      }));
      world.barrier();
      times["load"].push_back(seconds_of([&] { engine.load(path); }));
    }
    times["bytes"] = 12 * parameters;
    if (world.rank() == 0) {
      std::cout << times.dump() << std::endl;
      std::filesystem::remove_all(path);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
