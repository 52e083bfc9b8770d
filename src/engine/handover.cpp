#include "engine/handover.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "comm/shm/collectives.h"
#include "engine/module_parameters.h"
#include "shard/storage.h"

namespace zero::engine {

namespace {

// Numbers are separated by blanks, texts have a line each; the configuration
// comes last and has all that is left.
void write(std::ostream& text, const std::vector<Handover::Parameter>& all) {
  text << all.size() << "\n";
  for (const auto& parameter : all) {
    text << (parameter.requires_grad ? 1 : 0) << " " << parameter.num_updates
         << "\n"
         << parameter.name << "\n"
         << parameter.shape << "\n";
  }
}

std::vector<Handover::Parameter> read_parameters(std::istream& text) {
  size_t count = 0;
  text >> count;
  std::vector<Handover::Parameter> all(count);
  for (auto& parameter : all) {
    text >> parameter.requires_grad >> parameter.num_updates;
    text.ignore(); // the end of the line
    std::getline(text, parameter.name);
    std::getline(text, parameter.shape);
  }
  return all;
}

[[noreturn]] void refuse(
    const std::string& prefix,
    const std::string& what,
    const std::string& expected,
    const std::string& got) {
  throw ConfigError(c10::str(
      prefix,
      "join: this process takes the place of a lost rank, and has another ",
      what,
      " than those who train: expected '",
      expected,
      "', got '",
      got,
      "'. Fix: start the job with what stays as it is, such as the program and "
      "its files, or start it again"));
}

// Takes it out of those that the module has.
shard::Parameter take(
    std::map<std::string, shard::Parameter>& own,
    const Handover::Parameter& expected,
    const char* what,
    const std::string& prefix) {
  const auto found = own.find(expected.name);
  if (found == own.end()) {
    refuse(prefix, what, expected.name, "no such name");
  }
  const std::string shape = told_of(found->second).shape;
  if (shape != expected.shape) {
    refuse(
        prefix,
        what,
        expected.name + " " + expected.shape,
        expected.name + " " + shape);
  }
  auto parameter = std::move(found->second);
  own.erase(found);
  return parameter;
}

std::map<std::string, shard::Parameter> by_name(
    std::vector<shard::Parameter> all) {
  std::map<std::string, shard::Parameter> names;
  for (auto& parameter : all) {
    const std::string name = parameter.name();
    names.emplace(name, std::move(parameter));
  }
  return names;
}

} // namespace

std::string to_text(const Handover& handover) {
  std::ostringstream text;
  text << handover.generation << " " << handover.num_engines << " "
       << handover.round << " " << handover.global_step << " "
       << handover.accumulation_steps << " " << handover.num_states << " "
       << handover.rates.size() << "\n";
  for (const auto& rate : handover.rates) { // bit by bit
    text << (rate ? 1 : 0) << " " << std::bit_cast<uint64_t>(rate.value_or(0))
         << "\n";
  }
  text << handover.partitions.size() << "\n";
  for (const auto& partition : handover.partitions) {
    text << (partition.trainable ? 1 : 0) << "\n";
    write(text, partition.parameters);
  }
  write(text, handover.buffers);
  text << handover.config;
  return text.str();
}

Handover handover_from(const std::string& all) {
  std::istringstream text(all);
  Handover handover;
  size_t num_rates = 0;
  text >> handover.generation >> handover.num_engines >> handover.round >>
      handover.global_step >> handover.accumulation_steps >>
      handover.num_states >> num_rates;
  for (size_t i = 0; i < num_rates; ++i) {
    bool is_set = false;
    uint64_t bits = 0;
    text >> is_set >> bits;
    handover.rates.push_back(
        is_set ? std::optional(std::bit_cast<double>(bits)) : std::nullopt);
  }
  size_t num_partitions = 0;
  text >> num_partitions;
  for (size_t i = 0; i < num_partitions; ++i) {
    auto& partition = handover.partitions.emplace_back();
    text >> partition.trainable;
    partition.parameters = read_parameters(text);
  }
  handover.buffers = read_parameters(text);
  if (handover.buffers.empty()) {
    text.ignore(); // the end of the line with their number
  }
  handover.config.assign(std::istreambuf_iterator<char>(text), {});
  return handover;
}

Handover::Parameter told_of(const shard::Parameter& parameter) {
  const auto& tensor = parameter.tensor;
  std::ostringstream shape;
  shape << tensor.dtype().name() << " " << tensor.sizes();
  if (!tensor.is_contiguous()) {
    shape << " with strides " << tensor.strides();
  }
  return {
      .name = parameter.name(),
      .shape = shape.str(),
      .requires_grad = tensor.requires_grad()};
}

std::vector<std::vector<shard::Parameter>> match(
    const torch::nn::Module& module,
    const Config& config,
    int num_states,
    const Handover& handover,
    const std::string& prefix) {
  std::istringstream there(handover.config);
  std::istringstream here(config.to_json());
  std::string expected;
  std::string got;
  while (std::getline(there, expected)) {
    got.clear();
    std::getline(here, got);
    if (got != expected) {
      refuse(prefix, "configuration", expected, got);
    }
  }
  if (num_states != handover.num_states) {
    refuse(
        prefix,
        "optimizer",
        c10::str(handover.num_states, " states"),
        c10::str(num_states, " states"));
  }
  auto parameters = by_name(parameters_of(module, prefix));
  auto buffers = by_name(buffers_of(module));
  std::vector<std::vector<shard::Parameter>> partitions;
  for (const auto& partition : handover.partitions) {
    auto& members = partitions.emplace_back();
    for (const auto& parameter : partition.parameters) {
      members.push_back(take(parameters, parameter, "module", prefix));
    }
  }
  for (const auto& buffer : handover.buffers) {
    take(buffers, buffer, "module", prefix);
  }
  if (!parameters.empty() || !buffers.empty()) {
    refuse(
        prefix,
        "module",
        "nothing more",
        parameters.empty() ? buffers.begin()->first
                           : parameters.begin()->first);
  }
  // What was frozen at the start may be trained since.
  for (size_t i = 0; i < partitions.size(); ++i) {
    for (size_t j = 0; j < partitions[i].size(); ++j) {
      auto& parameter = partitions[i][j];
      parameter.tensor.set_requires_grad(
          handover.partitions[i].parameters[j].requires_grad);
      if (!shard::owns_its_storage(parameter.tensor)) {
        shard::give_own_storage(parameter.tensor);
      }
      parameter.storage = parameter.tensor.storage();
    }
  }
  return partitions;
}

std::string text_of_rank_0(comm::Group& group, const std::string& text) {
  const auto length =
      group.exchange(CommOp::all_gather, {static_cast<int64_t>(text.size())})
          .front();
  const at::Tensor bytes = at::zeros({length}, at::kByte);
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  if (group.rank() == 0) {
    std::ranges::copy(text, data);
  }
  const auto broadcast = comm::make_broadcast(group.context(), bytes, 0);
  broadcast->counted = false;
  group.progress().submit(broadcast);
  group.progress().wait(broadcast);
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(length)};
}

} // namespace zero::engine
