#include "engine/tamper_check.h"

#include <algorithm>

#include "base/error.h"

namespace zero::engine {

TamperCheck::Mark TamperCheck::mark_of(const shard::Parameter& parameter) {
  const auto& tensor = parameter.tensor;
  const auto* impl = tensor.unsafeGetTensorImpl();
  return {
      .parameter = parameter,
      .storage = impl->unsafe_storage().unsafeGetStorageImpl(),
      .version = impl->version_counter().current_version(),
      .dtype = tensor.scalar_type(),
      .sizes = tensor.sizes().vec(),
      .strides = tensor.strides().vec()};
}

void TamperCheck::accept(const shard::Parameter& parameter) {
  marks_.push_back(mark_of(parameter));
  known_.insert(parameter.tensor.unsafeGetTensorImpl());
}

void TamperCheck::accept_all() {
  for (auto& mark : marks_) {
    mark.version = mark.parameter.tensor.unsafeGetTensorImpl()
                       ->version_counter()
                       .current_version();
  }
}

void TamperCheck::lend(const shard::Parameter& parameter) {
  for (auto& mark : marks_) {
    if (mark.parameter.tensor.is_same(parameter.tensor)) {
      mark.lent = true;
    }
  }
}

void TamperCheck::accept_values(const shard::Parameter& parameter) {
  for (auto& mark : marks_) {
    if (mark.parameter.tensor.is_same(parameter.tensor)) {
      mark.version = mark_of(parameter).version;
      mark.lent = false;
    }
  }
}

void TamperCheck::check_members(
    const std::string& prefix,
    const torch::nn::Module& module) const {
  const auto is_known = [this](const at::Tensor& tensor) {
    return !tensor.defined() || known_.contains(tensor.unsafeGetTensorImpl());
  };
  const auto tensors = module.parameters();
  if (std::all_of(tensors.begin(), tensors.end(), is_known)) {
    return;
  }
  for (const auto& item : module.named_parameters()) {
    if (!is_known(item.value())) {
      throw ConfigError(c10::str(
          prefix,
          "parameter '",
          item.key(),
          "' is new in the module: it would not be trained. Fix: add and "
          "replace parameters before the engine is made"));
    }
  }
}

void TamperCheck::check(const std::string& prefix) const {
  std::string problems;
  for (const auto& mark : marks_) {
    const Mark now = mark_of(mark.parameter);
    const char* what = now.storage != mark.storage || now.dtype != mark.dtype ||
            now.sizes != mark.sizes || now.strides != mark.strides
        ? "was replaced or moved"
        : now.version != mark.version && !mark.lent ? "was changed"
                                                    : nullptr;
    if (what != nullptr) {
      problems += c10::str("\n  '", mark.parameter.name(), "' ", what);
    }
  }
  if (!problems.empty()) {
    throw ConfigError(c10::str(
        prefix,
        "parameters are not as the engine left them:",
        problems,
        "\nFix: change parameters while a guard of engine.gather(..., "
        "zero::Access::write) lives, or before the engine is made"));
  }
}

} // namespace zero::engine
