// Defines what engine.save() and engine.load() are told and tell.
//
//   zero::Sampler sampler(data.size());
//   auto loaded = engine.load("checkpoint");
//   if (loaded.sampler) {
//     sampler.restore(*loaded.sampler);
//   }
//   ...
//   engine.save("checkpoint", {.sampler = sampler.state()});
//
// docs/durability.md tells what is promised, docs/formats/checkpoint.md what
// the files are.
#pragma once

#include <zero/sampler.h>

#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace zero {

// Of rank 0: what other ranks give does not count.
struct SaveOptions {
  // How many checkpoints the folder keeps, this one too; 0 keeps all. An old
  // one is removed only when the new one is complete.
  int keep = 2;
  std::optional<SamplerState> sampler = {}; // to go on with the data
  std::map<std::string, std::string> notes = {}; // the program's own
};

// A checkpoint that is being written while training goes on.
class SaveHandle {
 public:
  // Whether wait() would return at once. Ranks may differ for a moment.
  bool done() const;
  // Until it is complete and on the disk. Returns where it is. Throws: what
  // Engine::save() does.
  std::string wait() const {
    return path_.get();
  }

 private:
  friend class Engine;
  explicit SaveHandle(std::shared_future<std::string> path)
      : path_(std::move(path)) {}
  std::shared_future<std::string> path_;
};

struct LoadOptions {
  // Parameters and buffers only: to begin a training of its own with them.
  bool weights_only = false;
};

// What was loaded.
struct LoadedCheckpoint {
  std::string path; // of the one that was taken
  int64_t step = 0; // updates that it has behind it
  std::optional<SamplerState> sampler = {};
  std::map<std::string, std::string> notes = {};
};

} // namespace zero
