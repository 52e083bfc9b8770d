#include "checkpoint/diff.h"

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/quantity.h"
#include "checkpoint/row_major_reader.h"
#include "checkpoint/safetensors_types.h"
#include "checkpoint/saved_tensors.h"

namespace zero::checkpoint {

namespace {

using nlohmann::ordered_json;

// Facts of a manifest by name, as in "configuration/optimizer/params/lr".
std::map<std::string, std::string> facts_of(const Manifest& manifest) {
  auto json = ordered_json::parse(manifest.to_json());
  for (const char* key :
       {"format",
        "version",
        "libzero",
        "saved_at",
        "stage", // the configuration has it
        "shards",
        "parameters", // by name, not by number
        "buffers",
        "checksum"}) {
    json.erase(key);
  }
  std::map<std::string, std::string> facts;
  const auto flat = json.flatten();
  for (const auto& [key, value] : flat.items()) {
    facts[key.substr(1)] = value.dump();
  }
  for (const auto& parameter : manifest.parameters) {
    const std::string name = "parameters/" + parameter.names.front();
    facts[name + "/names"] = ordered_json(parameter.names).dump();
    facts[name + "/trained"] = parameter.trained ? "true" : "false";
    facts[name + "/updates"] = std::to_string(parameter.updates);
    // Those of an empty one say nothing.
    const bool is_empty = std::ranges::count(parameter.sizes, 0) > 0;
    facts[name + "/strides"] =
        is_empty ? "" : ordered_json(parameter.strides).dump();
  }
  return facts;
}

template <class Number>
long double read_number(const std::byte* from) {
  Number value{};
  std::memcpy(&value, from, sizeof(value));
  return static_cast<long double>(value);
}
template <class Number>
long double read_half(const std::byte* from) {
  Number value{};
  std::memcpy(&value, from, sizeof(value));
  return static_cast<float>(value);
}

long double value_at(c10::ScalarType dtype, const std::byte* from) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return read_number<double>(from);
    case c10::ScalarType::Float:
      return read_number<float>(from);
    case c10::ScalarType::Half:
      return read_half<c10::Half>(from);
    case c10::ScalarType::BFloat16:
      return read_half<c10::BFloat16>(from);
    case c10::ScalarType::Long:
      return read_number<int64_t>(from);
    case c10::ScalarType::Int:
      return read_number<int32_t>(from);
    case c10::ScalarType::Short:
      return read_number<int16_t>(from);
    case c10::ScalarType::Char:
      return read_number<int8_t>(from);
    default: // Byte, and Bool, of which any byte can be in a file
      return read_number<uint8_t>(from);
  }
}

std::vector<int64_t> index_of(
    int64_t number,
    const std::vector<int64_t>& sizes) {
  std::vector<int64_t> index(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    index[i] = number % sizes[i];
    number /= sizes[i];
  }
  return index;
}

// The largest difference of the elements that have been looked at.
struct LargestDifference {
  int64_t count = 0; // of elements that differ
  int64_t number = 0; // of the one that differs most
  long double by = -1;
  long double values[2] = {};

  void add(int64_t which, long double a, long double b) {
    ++count;
    // What has no difference, as of nan to a number, is more than any.
    const long double distance = std::abs(a - b);
    if (distance > by || (std::isnan(distance) && !std::isnan(by))) {
      *this = {count, which, distance, {a, b}};
    }
  }
};

class Comparison {
 public:
  Comparison(
      CheckpointReader& a,
      CheckpointReader& b,
      const std::function<void(const std::string&)>& say)
      : a_(a),
        b_(b),
        say_(say),
        blocks_{
            std::make_unique_for_overwrite<std::byte[]>(kBlockBytes),
            std::make_unique_for_overwrite<std::byte[]>(kBlockBytes)} {}

  DiffResult run() {
    compare_facts();
    compare_tensors();
    compare_random_states();
    return result_;
  }

 private:
  void say_fact(const std::string& line) {
    ++result_.num_facts;
    say_(line);
  }

  void compare_facts() {
    const auto a = facts_of(a_.manifest());
    const auto b = facts_of(b_.manifest());
    for (const auto& [name, value] : a) {
      const auto other = b.find(name);
      if (other != b.end() && other->second != value) {
        say_fact(c10::str(name, ": ", value, " and ", other->second));
      } else if (other == b.end() && !name.starts_with("parameters/")) {
        say_fact(c10::str(name, ": ", value, ", only in the first"));
      }
    }
    for (const auto& [name, value] : b) {
      if (!a.contains(name) && !name.starts_with("parameters/")) {
        say_fact(c10::str(name, ": ", value, ", only in the second"));
      }
    }
  }

  void compare_tensors() {
    std::map<std::string, SavedTensor> others;
    for (auto& tensor : tensors_of(b_.manifest())) {
      others.emplace(tensor.key, std::move(tensor));
    }
    for (const auto& tensor : tensors_of(a_.manifest())) {
      const auto other = others.extract(tensor.key);
      if (!other) {
        say_fact(tensor.key + ": only in the first");
      } else if (
          other.mapped().sizes != tensor.sizes ||
          other.mapped().dtype != tensor.dtype) {
        say_fact(c10::str(
            tensor.key,
            ": ",
            describe_type(tensor),
            " and ",
            describe_type(other.mapped())));
      } else {
        compare_elements(tensor, other.mapped());
      }
    }
    for (const auto& [key, tensor] : others) {
      say_fact(key + ": only in the second");
    }
  }

  static std::string describe_type(const SavedTensor& tensor) {
    return c10::str(
        type_name(tensor.dtype), " ", c10::IntArrayRef(tensor.sizes));
  }

  void compare_elements(const SavedTensor& a, const SavedTensor& b) {
    RowMajorReader elements_a(a_, a);
    RowMajorReader elements_b(b_, b);
    const int64_t numel = a.numel();
    const int64_t element = a.element_bytes();
    const int64_t block_numel = kBlockBytes / element;
    LargestDifference largest;
    for (int64_t begin = 0; begin < numel; begin += block_numel) {
      const int64_t count = std::min(block_numel, numel - begin);
      elements_a.read({begin, begin + count}, blocks_[0].get());
      elements_b.read({begin, begin + count}, blocks_[1].get());
      if (std::memcmp(
              blocks_[0].get(),
              blocks_[1].get(),
              static_cast<size_t>(count * element)) == 0) {
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        const std::byte* place_a = blocks_[0].get() + i * element;
        const std::byte* place_b = blocks_[1].get() + i * element;
        if (std::memcmp(place_a, place_b, static_cast<size_t>(element)) != 0) {
          largest.add(
              begin + i,
              value_at(a.dtype, place_a),
              value_at(b.dtype, place_b));
        }
      }
    }
    ++result_.num_tensors;
    if (largest.count == 0) {
      ++result_.num_equal;
      return;
    }
    say_(c10::str(
        a.key,
        ": ",
        base::grouped(largest.count),
        " of ",
        base::counted(numel, "element"),
        largest.count == 1 ? " differs" : " differ",
        ", by at most ",
        static_cast<double>(largest.by),
        " at ",
        c10::IntArrayRef(index_of(largest.number, a.sizes)),
        ": ",
        static_cast<double>(largest.values[0]),
        " and ",
        static_cast<double>(largest.values[1])));
  }

  // Of ranks that both have.
  void compare_random_states() {
    const auto num_ranks = static_cast<int>(
        std::min(a_.manifest().shards.size(), b_.manifest().shards.size()));
    for (int rank = 0; rank < num_ranks; ++rank) {
      const at::Tensor a = a_.random_state(rank);
      const at::Tensor b = b_.random_state(rank);
      if (!a.defined() || !b.defined()) {
        continue;
      }
      ++result_.num_tensors;
      if (a.numel() == b.numel() &&
          std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) ==
              0) {
        ++result_.num_equal;
      } else {
        say_(c10::str(kRandomKey, " of rank ", rank, ": differs"));
      }
    }
  }

  CheckpointReader& a_;
  CheckpointReader& b_;
  const std::function<void(const std::string&)>& say_;
  std::unique_ptr<std::byte[]> blocks_[2];
  DiffResult result_;
};

} // namespace

DiffResult diff(
    CheckpointReader& a,
    CheckpointReader& b,
    const std::function<void(const std::string&)>& say) {
  return Comparison(a, b, say).run();
}

} // namespace zero::checkpoint
