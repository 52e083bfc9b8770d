#include "tasks/task.h"

#include <torch/utils.h>

namespace zero::tasks {

std::unique_ptr<Task> make_task(const TrainConfig& config) {
  torch::manual_seed(static_cast<uint64_t>(config.train.seed));
  return config.model.type == ModelConfig::Type::gpt ? make_text_task(config)
                                                     : make_image_task(config);
}

} // namespace zero::tasks
