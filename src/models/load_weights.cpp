#include "models/load_weights.h"

#include <c10/core/GradMode.h>

#include <map>
#include <utility>

#include "base/error.h"

namespace zero::models {

namespace {

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

// What a message has room for.
constexpr size_t kMaxShown = 20;

void tell(
    std::string& text,
    const char* what,
    const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  text += c10::str("\n  ", what, " (", names.size(), "):");
  for (size_t i = 0; i < names.size() && i < kMaxShown; ++i) {
    text += c10::str("\n    ", names[i]);
  }
  if (names.size() > kMaxShown) {
    text += c10::str("\n    and ", names.size() - kMaxShown, " more");
  }
}

} // namespace

std::vector<std::string> load_weights(
    torch::nn::Module& module,
    const checkpoint::SafetensorsReader& file,
    const LoadOptions& options) {
  const auto may_stay = [&](const std::string& name) {
    return !options.may_stay.empty() && name.starts_with(options.may_stay);
  };
  Tensors missing = tensors_of(module);
  std::vector<std::pair<std::string, at::Tensor>> found; // name in the file
  std::vector<std::string> unexpected;
  std::vector<std::string> of_other_sizes;
  std::vector<std::string> left;
  for (const auto& entry : file.entries()) {
    const std::string name =
        options.rename ? options.rename(entry.name) : entry.name;
    if (name.empty()) {
      continue;
    }
    const auto wanted = missing.extract(name);
    if (wanted.empty()) {
      unexpected.push_back(entry.name);
    } else if (wanted.mapped().sizes() == entry.sizes) {
      found.emplace_back(entry.name, wanted.mapped());
    } else if (may_stay(name)) {
      left.push_back(name);
    } else {
      of_other_sizes.push_back(c10::str(
          name,
          ": expected ",
          wanted.mapped().sizes(),
          ", got ",
          c10::IntArrayRef(entry.sizes)));
    }
  }
  std::vector<std::string> not_found;
  for (const auto& [name, tensor] : missing) {
    (may_stay(name) ? left : not_found).push_back(name);
  }
  std::string problems;
  tell(problems, "missing", not_found);
  tell(problems, "unexpected", unexpected);
  tell(problems, "of other sizes", of_other_sizes);
  if (!problems.empty()) {
    throw ConfigError(c10::str(
        "the weights in '",
        file.path(),
        "' are not those of this model:",
        problems,
        "\nFix: choose the model that they were made for"));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [name, tensor] : found) {
    tensor.copy_(file.read(name));
  }
  return left;
}

} // namespace zero::models
