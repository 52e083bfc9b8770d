#include "models/load_weights.h"

#include <c10/core/GradMode.h>

#include <map>
#include <set>

#include "base/error.h"

namespace zero::models {

using checkpoint::SafetensorsReader;

namespace {

struct Found {
  const SafetensorsReader* file = nullptr;
  std::string name; // in the file
  at::Tensor tensor;
};

using Tensors = std::map<std::string, at::Tensor>;

Tensors tensors_of(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) {
    tensors[item.key()] = item.value();
  }
  for (const auto& item : module.named_buffers()) {
    tensors[item.key()] = item.value();
  }
  return tensors;
}

bool differ_in_the_first(at::IntArrayRef one, at::IntArrayRef other) {
  return one.size() == other.size() && !one.empty() &&
      one.slice(1) == other.slice(1);
}

// Of the tensors that may stay: one for all, if they are of the same classes.
template <class NameOf, class MayStay>
std::set<int64_t> first_sizes(
    std::span<const SafetensorsReader> files,
    const NameOf& name_of,
    const MayStay& may_stay) {
  std::set<int64_t> found;
  for (const auto& file : files) {
    for (const auto& entry : file.entries()) {
      if (may_stay(name_of(entry))) {
        found.insert(entry.sizes.empty() ? 0 : entry.sizes[0]);
      }
    }
  }
  return found;
}

void tell(
    std::string& text,
    const char* what,
    const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  text += c10::str("\n  ", what, " (", names.size(), "):");
  for (const std::string& name : names) {
    text += "\n    " + name;
  }
}

} // namespace

std::vector<std::string> load_weights(
    torch::nn::Module& module,
    const SafetensorsReader& file,
    const LoadOptions& options) {
  return load_weights(module, {&file, 1}, file.path(), options);
}

std::vector<std::string> load_weights(
    torch::nn::Module& module,
    std::span<const SafetensorsReader> files,
    const std::string& origin,
    const LoadOptions& options) {
  const auto may_stay = [&](const std::string& name) {
    return !options.may_stay.empty() && name.starts_with(options.may_stay);
  };
  const auto may_be_missing = [&](const std::string& name) {
    return !options.may_be_missing.empty() &&
        name.ends_with(options.may_be_missing);
  };
  const auto name_of = [&](const checkpoint::TensorEntry& entry) {
    return options.rename ? options.rename(entry.name) : entry.name;
  };
  Tensors missing = tensors_of(module);
  std::vector<Found> found;
  std::vector<std::string> unexpected;
  std::vector<std::string> of_other_sizes;
  std::vector<std::string> left;
  const std::set<int64_t> classes = first_sizes(files, name_of, may_stay);
  for (const auto& file : files) {
    for (const auto& entry : file.entries()) {
      const std::string name = name_of(entry);
      const auto wanted = missing.extract(name);
      if (name.empty()) {
        continue;
      }
      if (wanted.empty()) {
        unexpected.push_back(entry.name);
        continue;
      }
      const at::IntArrayRef sizes(entry.sizes);
      const at::IntArrayRef expected = wanted.mapped().sizes();
      if (expected == sizes) {
        found.push_back({&file, entry.name, wanted.mapped()});
      } else if (
          may_stay(name) && classes.size() == 1 &&
          differ_in_the_first(expected, sizes)) {
        left.push_back(c10::str(name, " is ", sizes));
      } else {
        of_other_sizes.push_back(
            c10::str(name, ": expected ", expected, ", got ", sizes));
      }
    }
  }
  std::vector<std::string> not_found;
  for (const auto& [name, tensor] : missing) {
    if (may_stay(name) && classes.empty()) {
      left.push_back(name + " is not there");
    } else if (!may_be_missing(name)) {
      not_found.push_back(name);
    }
  }
  std::string problems;
  tell(problems, "missing", not_found);
  tell(problems, "unexpected", unexpected);
  tell(problems, "of other sizes", of_other_sizes);
  if (!problems.empty()) {
    throw ConfigError(c10::str(
        "the weights in '",
        origin,
        "' are not those of this model:",
        problems,
        "\nFix: choose the model that they were made for"));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [file, name, tensor] : found) {
    tensor.copy_(file->read(name));
  }
  return left;
}

} // namespace zero::models
