// Shards of checkpoints, one or two: their lengths in the first two bytes, then
// they themselves. The manifest is made to fit, so that what is wrong with them
// is found by what they say. All that is accepted is read.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/row_major_reader.h"
#include "checkpoint/saved_tensors.h"
#include "fuzz/input_file.h"

namespace {

using zero::checkpoint::CheckpointReader;
using zero::checkpoint::Manifest;
using zero::checkpoint::SafetensorsReader;

// In memory where that is possible, and removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::is_directory("/dev/shm")
        ? "/dev/shm/zero-fuzz-XXXXXX"
        : "/tmp/zero-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const {
    return path_;
  }
  std::string write(const std::string& name, std::string_view bytes) const {
    std::string path = path_ + '/' + name;
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

int64_t numel_of_entry(const zero::checkpoint::TensorEntry& entry) {
  int64_t numel = 1;
  for (const int64_t size : entry.sizes) {
    numel *= size;
  }
  return numel;
}

// What shards have under a name, together.
struct Whole {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
};

// What begins with a prefix is a tensor; what two shards have is flat.
std::map<std::string, Whole> wholes(
    const std::vector<SafetensorsReader>& shards,
    const std::string& prefix) {
  std::map<std::string, Whole> all;
  for (const auto& shard : shards) {
    for (const auto& entry : shard.entries()) {
      if (entry.name.starts_with(prefix)) {
        auto& whole = all[entry.name.substr(prefix.size())];
        const bool is_first = &shard == &shards.front();
        whole.dtype = entry.dtype;
        whole.sizes = is_first || whole.sizes.empty()
            ? entry.sizes
            : std::vector<int64_t>{whole.sizes.front() + numel_of_entry(entry)};
      }
    }
  }
  return all;
}

Manifest manifest_for(const std::vector<SafetensorsReader>& shards) {
  Manifest manifest;
  manifest.configuration = "{}";
  manifest.num_states = 1;
  for (const auto& shard : shards) {
    manifest.shards.push_back({shard.bytes(), shard.header_checksum()});
  }
  const auto states = wholes(shards, "state.0/");
  for (const auto& [name, whole] : wholes(shards, "parameter/")) {
    // The first dimension is the fastest: not as files have it.
    std::vector<int64_t> strides;
    int64_t stride = 1;
    for (const int64_t size : whole.sizes) {
      strides.push_back(stride);
      __builtin_mul_overflow(stride, size, &stride);
    }
    manifest.parameters.push_back(
        {{name}, whole.dtype, whole.sizes, strides, states.contains(name), 0});
  }
  for (const auto& [name, whole] : wholes(shards, "buffer/")) {
    manifest.buffers.push_back({name, whole.dtype, whole.sizes});
  }
  return manifest;
}

void read_all(CheckpointReader& reader) {
  for (const auto& tensor : tensors_of(reader.manifest())) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    zero::checkpoint::RowMajorReader elements(reader, tensor, 64);
    elements.read({0, tensor.numel()}, bytes.data());
  }
  for (const auto& buffer : reader.manifest().buffers) {
    const std::string key = zero::checkpoint::buffer_key(buffer.name);
    if (reader.has(key)) {
      reader.read_whole(key);
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    reader.random_state(rank);
  }
  reader.verify();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2) {
    return 0;
  }
  const size_t first = data[0] + size_t{256} * data[1];
  const std::string_view input = zero::fuzz::text_of(data + 2, size - 2);
  return zero::fuzz::try_input([&] {
    std::vector<SafetensorsReader> shards;
    shards.emplace_back(
        folder.write(zero::checkpoint::shard_name(0), input.substr(0, first)));
    if (first < input.size()) {
      shards.emplace_back(
          folder.write(zero::checkpoint::shard_name(1), input.substr(first)));
    }
    folder.write(
        zero::checkpoint::kManifestName, manifest_for(shards).to_json());
    CheckpointReader reader(folder.path());
    read_all(reader);
  });
}
