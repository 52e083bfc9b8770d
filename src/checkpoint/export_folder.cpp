#include "checkpoint/export_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "base/unique_fd.h"
#include "checkpoint/row_major_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/saved_tensors.h"

namespace zero::checkpoint {

namespace fs = std::filesystem;

namespace {

// A folder with a name of its own beside `path`, which gets that name when it
// is complete.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path)
      : path_(fs::absolute(path).lexically_normal()) {
    if (!path_.has_filename()) { // it ends with a slash
      path_ = path_.parent_path();
    }
    std::error_code error;
    if (fs::exists(path_) &&
        (!fs::is_directory(path_) || !fs::is_empty(path_, error) || error)) {
      refuse();
    }
    base::make_folders(path_.parent_path());
    temporary_ = base::make_temporary_folder(
        path_.parent_path() / ("." + path_.filename().string()));
  }

  ~NewFolder() { // without commit() nothing is left
    if (!temporary_.empty()) {
      std::error_code ignored;
      fs::remove_all(temporary_, ignored);
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const {
    return temporary_;
  }

  // Its files are safe each by itself.
  void commit() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) {
        refuse(); // somebody else was faster
      }
      fail("rename");
    }
    temporary_.clear();
    const base::UniqueFd parent(::open(
        path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.valid()) {
      ::fsync(parent.get());
    }
  }

 private:
  [[noreturn]] void refuse() const {
    throw ConfigError(c10::str(
        "'",
        path_.string(),
        "' is there already. Fix: name a folder that is not there, or empty"));
  }
  [[noreturn]] void fail(const char* call) const {
    throw IoError(base::system_message(
        c10::str(
            "cannot write the folder '",
            path_.string(),
            "'. Fix: name a place that you may write to"),
        call,
        errno));
  }

  fs::path path_;
  fs::path temporary_;
};

bool is_weights(const fs::path& path) {
  return path.extension() == ".safetensors" ||
      path.filename().string().ends_with(".safetensors.index.json");
}

void copy_whole_file(const fs::path& from, const fs::path& to) {
  const base::UniqueFd file =
      base::open_to_read(from, "'" + from.string() + "'");
  base::NewFile copy(to);
  std::vector<char> piece(kBlockBytes);
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw IoError(base::system_message(
          "cannot read '" + from.string() + "'", "read", errno));
    }
    if (count == 0) {
      break;
    }
    copy.write({piece.data(), static_cast<size_t>(count)});
  }
  copy.commit();
}

void copy_model_files(const fs::path& from, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.is_regular_file() && !is_weights(entry.path())) {
      copy_whole_file(entry.path(), to / entry.path().filename());
    }
  }
}

using TensorGroup = std::vector<SavedTensor>; // of one file

// At least one, so that there is always a file.
std::vector<TensorGroup> divide(
    std::vector<SavedTensor> tensors,
    int64_t max_bytes) {
  std::vector<TensorGroup> groups(1);
  int64_t bytes = 0;
  for (auto& tensor : tensors) {
    if (!groups.back().empty() && tensor.bytes() > max_bytes - bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    groups.back().push_back(std::move(tensor));
  }
  return groups;
}

// As `transformers` calls them.
std::string file_name(size_t number, size_t count) {
  if (count == 1) {
    return "model.safetensors";
  }
  const auto five_digits = [](size_t value) {
    return base::zero_padded(static_cast<int64_t>(value), 5);
  };
  return "model-" + five_digits(number + 1) + "-of-" + five_digits(count) +
      ".safetensors";
}

void write_group(
    CheckpointReader& reader,
    const TensorGroup& group,
    const fs::path& path) {
  std::vector<TensorEntry> entries;
  for (const auto& tensor : group) {
    entries.push_back({tensor.name, tensor.dtype, tensor.sizes});
  }
  SafetensorsWriter writer(path, entries);
  const auto block = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  for (const auto& tensor : group) {
    RowMajorReader elements(reader, tensor);
    const int64_t numel = tensor.numel();
    const int64_t block_numel = kBlockBytes / tensor.element_bytes();
    for (int64_t begin = 0; begin < numel; begin += block_numel) {
      const int64_t count = std::min(block_numel, numel - begin);
      elements.read({begin, begin + count}, block.get());
      writer.write(
          block.get(), static_cast<size_t>(count * tensor.element_bytes()));
    }
  }
  writer.commit();
}

std::string index_json(
    const std::vector<TensorGroup>& groups,
    const std::vector<std::string>& names) {
  int64_t bytes = 0;
  auto map = nlohmann::ordered_json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& tensor : groups[i]) {
      bytes += tensor.bytes();
      map[tensor.name] = names[i];
    }
  }
  const nlohmann::ordered_json index{
      {"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  return index.dump(2) + "\n";
}

} // namespace

std::vector<std::string> export_folder(
    CheckpointReader& reader,
    const std::string& folder,
    const ExportOptions& options) {
  NewFolder made(folder);
  if (!options.model_folder.empty()) {
    copy_model_files(options.model_folder, made.path());
  }
  const auto groups =
      divide(weights_of(reader.manifest()), options.max_file_bytes);
  std::vector<std::string> names;
  for (size_t i = 0; i < groups.size(); ++i) {
    names.push_back(file_name(i, groups.size()));
    write_group(reader, groups[i], made.path() / names.back());
  }
  if (groups.size() > 1) {
    base::write_file(
        made.path() / "model.safetensors.index.json",
        index_json(groups, names));
  }
  made.commit();
  return names;
}

std::string model_folder_of(const std::string& checkpoint) {
  // run/checkpoints/save-.., beside run/model or, before a run's end, run/best.
  auto path = fs::absolute(checkpoint).lexically_normal();
  if (!path.has_filename()) { // it ends with a slash
    path = path.parent_path();
  }
  const auto run = path.parent_path().parent_path();
  for (const char* name : {"model", "best"}) {
    std::error_code ignored;
    if (fs::is_regular_file(run / name / "config.json", ignored)) {
      return run / name;
    }
  }
  return {};
}

} // namespace zero::checkpoint
