#include "data/image_folder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file_io.h"
#include "base/memory.h"
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

// Does `work` for all numbers below `count`, on several threads. Numbers are
// given out in order, so when one fails, all before it are at work or done: of
// those that failed, the lowest is the lowest there is, and its error is
// thrown.
class NumberedWork {
 public:
  NumberedWork(size_t count, std::function<void(size_t)> work)
      : count_(count), work_(std::move(work)) {}

  void run(size_t num_threads) {
    {
      std::vector<std::jthread> threads; // joined at its end
      while (threads.size() < std::min(num_threads, count_)) {
        add_thread(threads);
      }
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  void add_thread(std::vector<std::jthread>& threads) {
    try {
      threads.emplace_back([this] { run_some(); });
    } catch (const std::system_error& error) {
      stop_ = true;
      throw IoError(c10::str(
          "cannot start thread ",
          threads.size() + 1,
          " to decode images: ",
          error.what(),
          ". Fix: use fewer threads, or raise the limit of processes"));
    }
  }

  void run_some() {
    while (!stop_) {
      const size_t number = next_++;
      if (number >= count_) {
        return;
      }
      try {
        work_(number);
      } catch (...) {
        stop_ = true;
        const std::lock_guard lock(mutex_);
        if (number < failed_) {
          failed_ = number;
          failure_ = std::current_exception();
        }
      }
    }
  }

  size_t count_;
  std::function<void(size_t)> work_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_; // of what follows
  size_t failed_ = SIZE_MAX;
  std::exception_ptr failure_;
};

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
    return fit_image(decode_image(bytes, title, num_channels), size);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) { // libtorch's, when memory is short
    throw IoError(c10::str(
        "cannot decode ", title, ": ", error.what(), ". Fix: free memory"));
  }
}

void check_request(int64_t size, int64_t num_channels, int num_threads) {
  std::string wrong;
  if (size < 1 || size > kMaxImageSide) {
    wrong += c10::str(
        "; their size is ", size, ", expected 1 to ", kMaxImageSide, " pixels");
  }
  if (num_channels != 1 && num_channels != 3) {
    wrong += c10::str(
        "; they have ", num_channels, " channels, expected 3, or 1 for grey");
  }
  if (num_threads < 1) {
    wrong +=
        c10::str("; there are ", num_threads, " threads, expected 1 or more");
  }
  if (!wrong.empty()) {
    throw ConfigError("images cannot be read so" + wrong);
  }
}

void check_memory_for(
    const std::string& root,
    size_t num_images,
    int64_t image_bytes) {
  int64_t bytes = 0;
  const int64_t available = base::available_memory();
  if (__builtin_mul_overflow(num_images, image_bytes, &bytes) ||
      bytes > available) {
    throw IoError(c10::str(
        "no memory for the ",
        num_images,
        " images in '",
        root,
        "' of ",
        image_bytes,
        " bytes each: ",
        available,
        " bytes are available. Fix: use smaller images, or fewer ranks on a "
        "machine"));
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

ImageSet read_image_folder(
    const std::string& root,
    int64_t size,
    int64_t num_channels,
    int num_threads) {
  check_request(size, num_channels, num_threads);
  const ImageFolder folder = list_image_folder(root);
  const size_t count = folder.files.size();
  check_memory_for(root, count, num_channels * size * size);
  ImageSet set{
      .images = at::empty(
          {static_cast<int64_t>(count), num_channels, size, size}, at::kByte),
      .labels = at::empty({static_cast<int64_t>(count)}, at::kLong),
      .num_classes = static_cast<int64_t>(folder.classes.size())};
  auto* images = set.images.mutable_data_ptr<uint8_t>();
  auto* labels = set.labels.mutable_data_ptr<int64_t>();
  const auto image_bytes = static_cast<size_t>(num_channels * size * size);
  NumberedWork work(count, [&](size_t number) {
    const auto& [path, label] = folder.files[number];
    const at::Tensor image = read_image(path, size, num_channels).contiguous();
    std::memcpy(
        images + number * image_bytes, image.const_data_ptr(), image_bytes);
    labels[number] = label;
  });
  work.run(static_cast<size_t>(num_threads));
  return set;
}

} // namespace zero::data
