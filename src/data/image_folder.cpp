#include "data/image_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/file_io.h"
#include "data/image_decoder.h"

namespace zero::data {

namespace {

// More than the largest image takes that decode_image() accepts.
constexpr size_t kMaxImageFileBytes = size_t{1} << 30;
constexpr size_t kMaxProblemsTold = 20;

bool ends_like_an_image(const std::string& name) {
  const size_t dot = name.rfind('.');
  std::string ending = dot == name.npos ? "" : name.substr(dot);
  for (char& c : ending) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// The names in a folder that `wanted` is true of, sorted; hidden ones never
// are. Sets `error` if the folder cannot be read.
template <class Wanted>
std::vector<std::string> sorted_names(
    const std::string& folder,
    std::error_code& error,
    Wanted wanted) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with('.') && wanted(*entry, name)) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> class_names(const std::string& root) {
  std::error_code error;
  auto names = sorted_names(
      root,
      error,
      [](const std::filesystem::directory_entry& entry, const std::string&) {
        std::error_code ignored; // of a link to nowhere
        return entry.is_directory(ignored);
      });
  if (error) {
    throw IoError(c10::str(
        "cannot read the folder of images '",
        root,
        "': ",
        error.message(),
        ". Fix: name a folder that has a folder of images for each class"));
  }
  if (names.empty()) {
    throw ConfigError(c10::str(
        "'",
        root,
        "' has no folders, expected one for each class. Fix: name the folder "
        "that they are in"));
  }
  return names;
}

[[noreturn]] void refuse_folder(
    const std::string& root,
    const std::vector<std::string>& problems) {
  std::string text = c10::str("'", root, "' is not as expected:");
  for (size_t i = 0; i < std::min(problems.size(), kMaxProblemsTold); ++i) {
    text += "\n  " + problems[i];
  }
  if (problems.size() > kMaxProblemsTold) {
    text += c10::str("\n  and ", problems.size() - kMaxProblemsTold, " more");
  }
  throw ConfigError(
      text +
      "\nFix: give each class a folder with .jpg, .jpeg or .png files, and "
      "remove what is no class");
}

at::Tensor read_image(
    const std::string& path,
    int64_t size,
    int64_t num_channels) {
  const std::string title = "'" + path + "'";
  try {
    const std::string bytes = base::read_file(path, title, kMaxImageFileBytes);
    if (bytes.size() > kMaxImageFileBytes) {
      throw CorruptionError(c10::str(
          title,
          " cannot be used: it has more than ",
          kMaxImageFileBytes,
          " bytes. Fix: remove it, or make the image smaller"));
    }
    return fit_image(decode_image(bytes, title, num_channels), size)
        .contiguous();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) { // libtorch's, when memory is short
    throw IoError(c10::str(
        "cannot decode ",
        title,
        ": ",
        base::message_of(error),
        ". Fix: free memory, or leave the file out"));
  }
}

void check_request(int64_t size, int64_t num_channels) {
  std::string wrong;
  if (size < 1 || size > kMaxImageSide) {
    wrong += c10::str(
        "; their size is ", size, ", expected 1 to ", kMaxImageSide, " pixels");
  }
  if (num_channels != 1 && num_channels != 3) {
    wrong += c10::str(
        "; they have ", num_channels, " channels, expected 3, or 1 for grey");
  }
  if (!wrong.empty()) {
    throw ConfigError("images cannot be read so" + wrong);
  }
}

} // namespace

ImageFolder list_image_folder(const std::string& root) {
  ImageFolder folder{.classes = class_names(root), .files = {}};
  std::vector<std::string> problems;
  for (size_t number = 0; number < folder.classes.size(); ++number) {
    const std::string path =
        std::filesystem::path(root) / folder.classes[number];
    std::error_code error;
    const auto names = sorted_names(
        path,
        error,
        [&](const std::filesystem::directory_entry& entry,
            const std::string& name) {
          std::error_code ignored; // of a link to nowhere
          const bool is_image = ends_like_an_image(name);
          if (is_image && !entry.is_regular_file(ignored)) {
            problems.push_back(c10::str("'", path, "/", name, "' is no file"));
          }
          return is_image;
        });
    if (error) {
      problems.push_back(
          c10::str("'", path, "' cannot be read: ", error.message()));
    } else if (names.empty()) {
      problems.push_back(c10::str("'", path, "' has no images"));
    }
    for (const auto& name : names) {
      folder.files.emplace_back(
          std::filesystem::path(path) / name, static_cast<int64_t>(number));
    }
  }
  if (!problems.empty()) {
    refuse_folder(root, problems);
  }
  return folder;
}

ImageSet open_image_folder(
    const std::string& root,
    int64_t size,
    int64_t num_channels) {
  check_request(size, num_channels);
  const auto folder =
      std::make_shared<const ImageFolder>(list_image_folder(root));
  const auto count = static_cast<int64_t>(folder->files.size());
  ImageSet set{
      .labels = at::empty({count}, at::kLong),
      .num_classes = static_cast<int64_t>(folder->classes.size()),
      .class_names = folder->classes,
      .image_sizes = {num_channels, size, size},
      .image = [folder, size, num_channels](int64_t number) {
        const auto& path = folder->files[static_cast<size_t>(number)].first;
        return read_image(path, size, num_channels);
      }};
  for (int64_t i = 0; i < count; ++i) {
    set.labels.mutable_data_ptr<int64_t>()[i] =
        folder->files[static_cast<size_t>(i)].second;
  }
  return set;
}

} // namespace zero::data
