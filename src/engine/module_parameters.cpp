#include "engine/module_parameters.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/host_name.h"
#include "base/log.h"
#include "comm/shm/collectives.h"
#include "observe/gradient_observer.h"

namespace zero::engine {

using shard::Parameter;

namespace {

// Tensors that are known by several names appear once.
template <class Items>
std::vector<Parameter> unique_tensors(const Items& items) {
  std::vector<Parameter> found;
  std::map<const void*, size_t> places;
  for (const auto& item : items) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) {
      continue;
    }
    const auto [place, is_new] =
        places.emplace(tensor.unsafeGetTensorImpl(), found.size());
    if (is_new) {
      found.push_back({.names = {}, .tensor = tensor});
    }
    found[place->second].names.push_back(item.key());
  }
  return found;
}

std::string problem_of(const Parameter& parameter) {
  const auto& tensor = parameter.tensor;
  if (!tensor.device().is_cpu()) {
    return c10::str(
        "is on ",
        tensor.device().str(),
        ". Fix: build the module on the CPU; the "
        "engine does not train on GPUs yet");
  }
  if (tensor.layout() != at::kStrided) {
    return "is sparse. Fix: use a dense parameter";
  }
  if (tensor.is_inference()) {
    return "was made in inference mode. Fix: build the module outside of it";
  }
  if (tensor.requires_grad() &&
      (!tensor.is_floating_point() || tensor.element_size() == 1)) {
    return c10::str(
        "has type ",
        tensor.dtype().name(),
        ". Fix: train float32, float64, bfloat16 or float16");
  }
  if (!tensor.is_leaf()) {
    return "is computed from other tensors. Fix: register the leaf";
  }
  if (observe::GradientObserver::is_watched(tensor)) {
    return "belongs to another engine. Fix: give each engine its own module";
  }
  return "";
}

// Memory of one parameter that another one has too.
std::string overlap_of(const std::vector<Parameter>& parameters) {
  struct Extent {
    const std::byte* begin;
    const std::byte* end;
    const Parameter* parameter;
  };
  std::vector<Extent> extents;
  for (const auto& parameter : parameters) {
    const auto& tensor = parameter.tensor;
    if (tensor.numel() == 0 || !tensor.device().is_cpu() ||
        tensor.layout() != at::kStrided) {
      continue;
    }
    int64_t last = 0; // element, from the first one
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      last += (tensor.size(i) - 1) * tensor.stride(i);
    }
    const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    const auto bytes = static_cast<int64_t>(tensor.element_size());
    extents.push_back({begin, begin + (last + 1) * bytes, &parameter});
  }
  std::sort(extents.begin(), extents.end(), [](const auto& a, const auto& b) {
    return a.begin < b.begin;
  });
  std::string problems;
  const Extent* furthest = nullptr; // of those that begin earlier
  for (const auto& extent : extents) {
    if (furthest != nullptr && extent.begin < furthest->end) {
      problems += c10::str(
          "\n  '",
          extent.parameter->name(),
          "' shares memory with '",
          furthest->parameter->name(),
          "' without being the same tensor. Fix: register one tensor twice, or "
          "give each memory of its own");
    }
    if (furthest == nullptr || extent.end > furthest->end) {
      furthest = &extent;
    }
  }
  return problems;
}

std::string describe(const std::vector<Parameter>& parameters) {
  std::ostringstream text;
  for (const auto& parameter : parameters) {
    text << parameter.name() << " " << parameter.tensor.dtype().name() << " "
         << parameter.tensor.sizes();
    if (!parameter.tensor.is_contiguous()) {
      text << " with strides " << parameter.tensor.strides();
    }
    text << (parameter.tensor.requires_grad() ? "" : " frozen") << "\n";
  }
  return text.str();
}

std::string line_of(std::istringstream& text) {
  std::string line;
  if (!std::getline(text, line)) {
    return "no more";
  }
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

} // namespace

std::vector<Parameter> parameters_of(
    const torch::nn::Module& module,
    const std::string& prefix) {
  auto parameters = unique_tensors(module.named_parameters());
  std::string problems;
  for (const auto& parameter : parameters) {
    const std::string problem = problem_of(parameter);
    if (!problem.empty()) {
      problems += c10::str("\n  '", parameter.name(), "' ", problem);
    }
  }
  problems += overlap_of(parameters);
  if (!problems.empty()) {
    throw ConfigError(
        c10::str(prefix, "these parameters cannot be partitioned:", problems));
  }
  return parameters;
}

std::vector<Parameter> buffers_of(const torch::nn::Module& module) {
  auto buffers = unique_tensors(module.named_buffers());
  std::erase_if(buffers, [](const Parameter& buffer) {
    const auto& tensor = buffer.tensor;
    // One that was expanded cannot be written to; it is a constant.
    return !tensor.device().is_cpu() || tensor.layout() != at::kStrided ||
        at::has_internal_overlap(tensor) != at::MemOverlap::No;
  });
  return buffers;
}

void check_same_on_all_ranks(
    comm::Group& group,
    const Config& config,
    const std::vector<Parameter>& parameters,
    const std::vector<Parameter>& buffers) {
  const std::string text =
      config.to_json() + "\n" + describe(parameters) + describe(buffers);
  const auto hashes = group.exchange(
      CommOp::all_gather,
      {base::hash_of(text), static_cast<int64_t>(text.size())});
  size_t different = 0; // the first one that is
  for (size_t i = hashes.size() - 2; i > 0; i -= 2) {
    if (hashes[i] != hashes[0] || hashes[i + 1] != hashes[1]) {
      different = i / 2;
    }
  }
  if (different == 0) {
    return;
  }
  // Every rank gets rank 0's description; the others say where they differ.
  at::Tensor bytes = at::zeros({hashes[1]}, at::kByte);
  if (group.rank() == 0) {
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  }
  const auto broadcast = comm::make_broadcast(group.context(), bytes, 0);
  group.progress().submit(broadcast);
  group.progress().wait(broadcast);
  std::istringstream first(std::string(
      reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
      static_cast<size_t>(bytes.numel())));
  std::istringstream own(text);
  std::string there = line_of(first);
  std::string here = line_of(own);
  while (there == here && !own.eof()) {
    there = line_of(first);
    here = line_of(own);
  }
  throw ConfigError(c10::str(
      base::rank_prefix(group.rank(), group.size()),
      "the ranks have different modules or configurations",
      here == there
          ? c10::str(
                ": rank ",
                different,
                " has another one than rank 0, and says where and what")
          : c10::str(
                ", here on host ",
                base::host_name(),
                ": expected '",
                there,
                "' as on rank 0, got '",
                here,
                "'"),
      ". Fix: build the same module with the same configuration on every rank"));
}

} // namespace zero::engine
