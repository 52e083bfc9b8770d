// What tests kill while it saves: trains a little, and saves after every step.
//
//   saving_ranks FOLDER STEPS
//
// It says "step N CHECKSUM" of what it is about to save, and "saved N" when
// that is done; or "loaded N CHECKSUM" if there is something to go on from.
#include <zero/zero.h>

#include <filesystem>
#include <iostream>

#include "base/checksum.h"
#include "checkpoint/training.h"

namespace zero::test {
namespace {

std::string checksum_of_all(Engine& engine, torch::nn::Module& module) {
  base::Checksum checksum;
  for (const auto& value : values_of(engine, module)) {
    const at::Tensor whole = value.contiguous();
    checksum.add(whole.const_data_ptr(), whole.nbytes());
  }
  return base::checksum_text(checksum.value());
}

void run(const std::string& folder, int64_t steps) {
  const World world = init();
  const Model model = make_model("odd");
  Engine engine(world, model.module, training_config({3, true}, world.size()));
  const auto say = [&](const std::string& what) {
    const std::string checksum = checksum_of_all(engine, *model.module);
    if (world.rank() == 0) {
      std::cout << what << ' ' << engine.global_step() << ' ' << checksum
                << std::endl;
    }
  };
  if (std::filesystem::exists(folder)) {
    engine.load(folder);
    say("loaded");
  }
  while (engine.global_step() < steps) {
    train_step(world, model, engine);
    say("step");
    engine.save(folder, {.keep = 1});
    say("saved");
  }
}

} // namespace
} // namespace zero::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "saving_ranks FOLDER STEPS\n";
    return 2;
  }
  try {
    zero::test::run(argv[1], std::stoll(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
