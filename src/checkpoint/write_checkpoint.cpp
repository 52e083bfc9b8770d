#include "checkpoint/write_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file_io.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/vote.h"

namespace zero::checkpoint {

namespace {

// Whether ranks of other hosts have written to the same folder.
void check_is_there(const std::string& path, int64_t bytes) {
  std::error_code error;
  const auto found = std::filesystem::file_size(path, error);
  if (error || static_cast<int64_t>(found) != bytes) {
    throw IoError(c10::str(
        "'",
        path,
        "' is not where rank 0 looks for it. Fix: save into a folder that all "
        "hosts share"));
  }
}

std::string commit(
    NewCheckpoint& made,
    Manifest& manifest,
    const std::vector<int64_t>& shards) {
  for (size_t i = 0; i < shards.size(); i += 2) {
    manifest.shards.push_back(
        {shards[i], static_cast<uint64_t>(shards[i + 1])});
    check_is_there(
        made.path() + '/' + shard_name(static_cast<int>(i / 2)), shards[i]);
  }
  base::write_file(made.path() + '/' + kManifestName, manifest.to_json());
  return made.commit();
}

} // namespace

std::string write_checkpoint(
    comm::Group& group,
    const Destination& destination,
    Snapshot& snapshot) {
  const std::string what = c10::str("save into '", destination.folder, "'");
  std::optional<NewCheckpoint> made; // by rank 0
  require_all(
      group,
      attempt([&] {
        if (group.rank() == 0) {
          made.emplace(destination.folder, snapshot.step);
        }
      }),
      what);
  const std::string path = text_of(group, made ? made->path() : "");

  SavedShard own;
  require_all(
      group,
      attempt([&] {
        own = write_shard(
            path + '/' + shard_name(group.rank()), snapshot.tensors);
      }),
      what);

  const auto shards = group.exchange(
      CommOp::all_gather, {own.bytes, static_cast<int64_t>(own.checksum)});
  std::string committed;
  require_all(
      group,
      attempt([&] {
        if (made) {
          committed = commit(*made, *snapshot.manifest, shards);
          remove_old_checkpoints(destination.folder, destination.keep);
        }
      }),
      what);
  return text_of(group, committed);
}

} // namespace zero::checkpoint
