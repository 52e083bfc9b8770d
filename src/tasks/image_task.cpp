// Learns which class an image is of.
#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/quantity.h"
#include "checkpoint/safetensors_reader.h"
#include "data/image_batch.h"
#include "data/image_folder.h"
#include "data/image_set.h"
#include "models/load_weights.h"
#include "models/resnet.h"
#include "tasks/task.h"

namespace zero::tasks {

using data::ImageSet;

namespace {

struct ImageSets {
  ImageSet training;
  ImageSet evaluation;
};

std::string first_that_exists(
    const std::string& folder,
    const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder + "/" + name)) {
      return folder + "/" + name;
    }
  }
  return folder + "/" + names.front(); // whoever opens it says what is missing
}

ImageSets read_cifar10_folder(const std::string& path) {
  const std::string inner = path + "/cifar-10-batches-bin";
  const std::string& folder = std::filesystem::exists(inner) ? inner : path;
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) {
    batches.push_back(c10::str(folder, "/data_batch_", i, ".bin"));
  }
  return {
      data::read_cifar10(batches),
      data::read_cifar10({folder + "/test_batch.bin"})};
}

ImageSets read_idx_folder(const std::string& folder) {
  constexpr int64_t kNumClasses = 10;
  const auto read = [&](const std::string& which) {
    const std::string images = which + "-images-idx3-ubyte";
    const std::string labels = which + "-labels-idx1-ubyte";
    return data::read_idx(
        first_that_exists(folder, {images, images + ".gz"}),
        first_that_exists(folder, {labels, labels + ".gz"}),
        kNumClasses);
  };
  return {read("train"), read("t10k")};
}

ImageSets read_image_folders(const DataConfig& config) {
  constexpr int64_t kColours = 3;
  const auto read = [&](const std::vector<std::string>& names) {
    return data::read_image_folder(
        first_that_exists(config.path, names),
        config.size,
        kColours,
        at::get_num_threads());
  };
  ImageSets sets{read({"train"}), read({"val", "validation", "test"})};
  if (sets.training.num_classes != sets.evaluation.num_classes) {
    throw ConfigError(c10::str(
        "'",
        config.path,
        "' has ",
        sets.training.num_classes,
        " classes to train on and ",
        sets.evaluation.num_classes,
        " to evaluate with. Fix: give both the same folders"));
  }
  return sets;
}

ImageSets read_images(const DataConfig& config) {
  switch (config.type) {
    case DataConfig::Type::cifar10:
      return read_cifar10_folder(config.path);
    case DataConfig::Type::idx:
      return read_idx_folder(config.path);
    default:
      return read_image_folders(config);
  }
}

// Of each channel of the images to train on, unless the file says otherwise.
data::ImageOptions image_options(
    const TrainConfig& config,
    const ImageSet& images) {
  data::ImageOptions options{
      .shift = config.data.crop_padding,
      .mirror = config.data.flip,
      .mean = {config.data.mean.begin(), config.data.mean.end()},
      .deviation = {config.data.std.begin(), config.data.std.end()},
      .seed = static_cast<uint64_t>(config.train.seed)};
  const int64_t num_channels = images.images.size(1);
  for (int64_t channel = 0; channel < num_channels; ++channel) {
    const at::Tensor values =
        images.images.select(1, channel).to(at::kFloat).div_(255);
    if (config.data.mean.empty()) {
      options.mean.push_back(values.mean().item<float>());
    }
    if (config.data.std.empty()) {
      const auto deviation = values.std().item<float>();
      options.deviation.push_back(deviation > 0 ? deviation : 1);
    }
  }
  check(options, num_channels);
  return options;
}

models::ResNet make_resnet(
    const TrainConfig& config,
    const ImageSet& images,
    std::vector<std::string>& notes) {
  const ModelConfig& model = config.model;
  const int64_t num_classes = model.num_classes.value_or(images.num_classes);
  if (num_classes < images.num_classes) {
    throw ConfigError(c10::str(
        "model.num_classes is ",
        num_classes,
        ", the data has ",
        images.num_classes,
        ". Fix: set it to at least as many, or leave it out"));
  }
  models::ResNet net(models::ResNetOptions{
      .depth = model.depth,
      .num_classes = num_classes,
      .num_channels = images.images.size(1),
      .stem = model.stem});
  if (model.load) {
    const checkpoint::SafetensorsReader weights(*model.load);
    for (const std::string& name :
         models::load_weights(*net, weights, {.may_stay = "fc."})) {
      notes.push_back(c10::str(
          "load     ",
          name,
          " is not in '",
          *model.load,
          "' with these sizes, and begins anew"));
    }
  }
  return net;
}

std::vector<int64_t> numbers_from(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers;
  for (int64_t i = begin; i < end; ++i) {
    numbers.push_back(i);
  }
  return numbers;
}

class ImageTask final : public Task {
 public:
  explicit ImageTask(const TrainConfig& config)
      : config_(config),
        sets_(read_images(config.data)),
        options_(image_options(config, sets_.training)),
        net_(make_resnet(config, sets_.training, notes_)) {}

  std::shared_ptr<torch::nn::Module> module() const override {
    return net_.ptr();
  }

  std::vector<std::string> notes() const override {
    return notes_;
  }

  std::string describe_model() const override {
    const bool is_small =
        config_.model.stem == models::ResNetOptions::Stem::small;
    return c10::str(
        "ResNet-",
        config_.model.depth,
        is_small ? " for small images" : "",
        ", ",
        sets_.training.num_classes,
        " classes");
  }

  std::string describe_data() const override {
    const auto sizes = sets_.training.images.sizes();
    return c10::str(
        base::grouped(sets_.training.size()),
        " images of ",
        sizes[1],
        " x ",
        sizes[2],
        " x ",
        sizes[3],
        " to train on, ",
        base::grouped(sets_.evaluation.size()),
        " to evaluate with");
  }

  int64_t num_training_samples() const override {
    return sets_.training.size();
  }
  int64_t num_evaluation_samples() const override {
    const int64_t all = sets_.evaluation.size();
    return std::min(config_.train.evaluate_samples.value_or(all), all);
  }
  int64_t sample_length() const override {
    return 1;
  }
  const char* sample_name() const override {
    return "images";
  }

  Batch training_batch(const std::vector<int64_t>& samples, int64_t position)
      const override {
    auto batch =
        data::training_batch(sets_.training, samples, options_, position);
    return {std::move(batch.images), std::move(batch.labels)};
  }

  Batch evaluation_batch(int64_t begin, int64_t end) const override {
    auto batch = data::evaluation_batch(
        sets_.evaluation, numbers_from(begin, end), options_);
    return {std::move(batch.images), std::move(batch.labels)};
  }

  at::Tensor loss(const Batch& batch) override {
    return at::cross_entropy_loss(
        net_->forward(batch.inputs),
        batch.targets,
        /*weight=*/{},
        at::Reduction::Mean,
        /*ignore_index=*/-100,
        config_.train.label_smoothing);
  }

  // Without the smoothing, so that losses of recipes can be compared.
  Sums measure(const Batch& batch) override {
    const at::Tensor logits = net_->forward(batch.inputs);
    const int64_t k = std::min<int64_t>(kTop, logits.size(1));
    const at::Tensor is_right = std::get<1>(logits.topk(k, 1))
                                    .eq(batch.targets.unsqueeze(1))
                                    .to(at::kDouble);
    const auto count = static_cast<double>(batch.targets.numel());
    return {
        count,
        at::cross_entropy_loss(logits, batch.targets).item<double>() * count,
        is_right.select(1, 0).sum().item<double>(),
        is_right.sum().item<double>()};
  }

  Results results(const Sums& sums) const override {
    return {
        {"loss", sums[1] / sums[0]},
        {"accuracy", sums[2] / sums[0]},
        {"top5", sums[3] / sums[0]}};
  }

  void write_model_files(const std::string& /*folder*/) const override {}

 private:
  static constexpr int64_t kTop = 5;

  TrainConfig config_;
  ImageSets sets_;
  data::ImageOptions options_;
  std::vector<std::string> notes_;
  models::ResNet net_;
};

} // namespace

std::unique_ptr<Task> make_image_task(const TrainConfig& config) {
  return std::make_unique<ImageTask>(config);
}

} // namespace zero::tasks
