// Defines Manifest: what a checkpoint is of, and which files it has.
// docs/formats/checkpoint.md describes the file.
#pragma once

#include <c10/core/ScalarType.h>
#include <zero/sampler.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

struct SavedParameter {
  std::vector<std::string> names; // several if it is tied
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {}; // data are in the order of memory
  bool trained = false;
  int64_t updates = 0; // it has had so many
};

struct SavedBuffer {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes = {};
};

struct SavedShard {
  int64_t bytes = 0;
  uint64_t checksum = 0; // of its header, which has those of its data
};

struct Manifest {
  std::string libzero_version;
  std::string saved_at; // in UTC
  int64_t step = 0;
  int stage = 0;
  std::string optimizer;
  int num_states = 0; // tensors of optimizer state for each parameter
  std::vector<std::optional<double>> set_rates; // by set_lr(), by group
  std::vector<SavedParameter> parameters;
  std::vector<SavedBuffer> buffers;
  std::vector<SavedShard> shards; // by rank
  std::optional<SamplerState> sampler;
  std::map<std::string, std::string> notes;
  std::string configuration; // JSON

  std::string to_json() const;

  // `path` is how messages call it. Throws: CorruptionError.
  static Manifest from_json(std::string_view text, const std::string& path);
};

// That of a folder. Throws: IoError, CorruptionError, ConfigError for a newer
// format.
Manifest read_manifest(const std::string& folder);

// The file of a rank.
std::string shard_name(int rank);

// Of a parameter's optimizer state.
c10::ScalarType state_dtype(c10::ScalarType dtype);

// What a tensor is called in a shard.
std::string parameter_key(const std::string& name);
std::string state_key(int state, const std::string& name);
std::string buffer_key(const std::string& name);
inline constexpr const char* kRandomKey = "random";

} // namespace zero::checkpoint
