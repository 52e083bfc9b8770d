// Learns which class an image is of.
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "checkpoint/safetensors_reader.h"
#include "data/channel_statistics.h"
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

// A class has the number that it has in training, also where others are
// missing.
void renumber(ImageSet& set, const std::vector<std::string>& known) {
  auto* label = set.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < set.size(); ++i, ++label) {
    const auto& name = set.class_names[static_cast<size_t>(*label)];
    *label = std::find(known.begin(), known.end(), name) - known.begin();
  }
  set.num_classes = static_cast<int64_t>(known.size());
  set.class_names = known;
}

ImageSets read_image_folders(
    const DataConfig& config,
    std::vector<std::string>& notes) {
  constexpr int64_t kColours = 3;
  const auto read = [&](const std::vector<std::string>& names) {
    return data::open_image_folder(
        first_that_exists(config.path, names), config.size, kColours);
  };
  ImageSets sets{read({"train"}), read({"val", "validation", "test"})};
  const auto& known = sets.training.class_names;
  for (const std::string& name : sets.evaluation.class_names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ConfigError(c10::str(
          "'",
          config.path,
          "' has the class '",
          name,
          "' to evaluate with, but not to train on. Fix: give both the same "
          "folders"));
    }
  }
  for (const std::string& name : known) {
    const auto& there = sets.evaluation.class_names;
    if (std::find(there.begin(), there.end(), name) == there.end()) {
      notes.push_back(c10::str(
          "note     no image of the class '", name, "' to evaluate with"));
    }
  }
  if (known != sets.evaluation.class_names) {
    renumber(sets.evaluation, known);
  }
  return sets;
}

ImageSets read_images(
    const DataConfig& config,
    std::vector<std::string>& notes) {
  switch (config.type) {
    case DataConfig::Type::cifar10:
      return read_cifar10_folder(config.path);
    case DataConfig::Type::idx:
      return read_idx_folder(config.path);
    default:
      return read_image_folders(config, notes);
  }
}

// Files have to be decoded, so a part of them stands for all.
constexpr int64_t kMeasuredFiles = 256;

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
  if (options.mean.empty() || options.deviation.empty()) {
    const auto measured = data::measure_channels(
        images, images.class_names.empty() ? images.size() : kMeasuredFiles);
    if (options.mean.empty()) {
      options.mean = measured.mean;
    }
    if (options.deviation.empty()) {
      options.deviation = measured.deviation;
    }
  }
  check(options, images.image_sizes[0]);
  return options;
}

models::ResNet make_resnet(
    const TrainConfig& config,
    const ImageSet& images,
    std::vector<std::string>& notes) {
  const ModelConfig& model = config.model;
  const int64_t num_classes = model.num_classes.value_or(images.num_classes);
  if (num_classes < images.num_classes) {
    config.as_asked_by("model.num_classes", [&] {
      throw ConfigError(c10::str(
          "got ",
          num_classes,
          ", the data has ",
          images.num_classes,
          ". Fix: set it to at least as many, or leave it out"));
    });
  }
  models::ResNet net(models::ResNetOptions{
      .depth = model.depth,
      .num_classes = num_classes,
      .num_channels = images.image_sizes[0],
      .stem = model.stem});
  if (model.load) {
    const auto left = config.as_asked_by("model.load", [&] {
      return models::load_weights(
          *net,
          checkpoint::SafetensorsReader(*model.load),
          {.may_stay = "fc.", .may_be_missing = ".num_batches_tracked"});
    });
    for (const std::string& what : left) {
      notes.push_back(c10::str(
          "load     ", what, " in '", *model.load, "', and begins anew"));
    }
  }
  return net;
}

class ImageTask final : public Task {
 public:
  explicit ImageTask(const TrainConfig& config)
      : config_(config),
        sets_(read_images(config.data, notes_)),
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
        num_classes(),
        " classes");
  }

  std::string describe_data() const override {
    const auto& sizes = sets_.training.image_sizes;
    return c10::str(
        base::grouped(sets_.training.size()),
        " images of ",
        sizes[0],
        " x ",
        sizes[1],
        " x ",
        sizes[2],
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
    std::vector<int64_t> numbers;
    for (int64_t i = begin; i < end; ++i) {
      numbers.push_back(
          spread(i, num_evaluation_samples(), sets_.evaluation.size()));
    }
    auto batch = data::evaluation_batch(sets_.evaluation, numbers, options_);
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

  // One pixel of one image has no variance to normalise by.
  void check_batch(int64_t num_samples) const override {
    const bool is_small =
        config_.model.stem == models::ResNetOptions::Stem::small;
    const int64_t reduced = is_small ? 8 : 32; // times smaller at the end
    const auto& sizes = sets_.training.image_sizes;
    if (num_samples == 1 && sizes[1] <= reduced && sizes[2] <= reduced) {
      throw ConfigError(c10::str(
          "batch normalisation of images of ",
          sizes[1],
          " x ",
          sizes[2],
          " needs at least 2 of them on each rank. Fix: raise "
          "train_batch_size",
          is_small ? "" : R"(, or choose "stem": "small")"));
    }
  }

  // What has to be done to images that the network is to see, and what its
  // answers mean.
  void write_model_files(const std::string& folder) const override {
    const nlohmann::ordered_json about{
        {"model_type", "resnet"},
        {"depth", config_.model.depth},
        {"stem",
         config_.model.stem == models::ResNetOptions::Stem::small ? "small"
                                                                  : "imagenet"},
        {"num_classes", num_classes()},
        {"class_names", sets_.training.class_names},
        {"image_size", sets_.training.image_sizes},
        {"image_mean", options_.mean},
        {"image_std", options_.deviation}};
    base::write_file(folder + "/config.json", about.dump(2) + "\n");
  }

 private:
  static constexpr int64_t kTop = 5;

  int64_t num_classes() const {
    return config_.model.num_classes.value_or(sets_.training.num_classes);
  }

  TrainConfig config_;
  std::vector<std::string> notes_;
  ImageSets sets_;
  data::ImageOptions options_;
  models::ResNet net_;
};

} // namespace

std::unique_ptr<Task> make_image_task(const TrainConfig& config) {
  return std::make_unique<ImageTask>(config);
}

} // namespace zero::tasks
