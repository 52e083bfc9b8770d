#include "data/image_set.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/memory.h"
#include "data/gzip.h"

namespace zero::data {

namespace {

constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarImageBytes = 3 * kCifarSide * kCifarSide;
constexpr int64_t kCifarClasses = 10;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw CorruptionError(c10::str(
      "'", path, "' cannot be used: ", what, ". Fix: download it again"));
}

// No set that is kept so is nearly as large.
constexpr size_t kMaxFileBytes = size_t{2} << 30;

// Neither format begins as compressed files do: a label is at most 9, and idx
// begins with two zeros.
std::string contents_of(const std::string& path) {
  std::error_code error; // of what cannot be looked at, reading tells
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMaxFileBytes) {
    refuse(path, c10::str("it has ", bytes, " bytes, more than 2 GiB"));
  }
  return read_maybe_gzip(
      path,
      "'" + path + "'",
      std::min(kMaxFileBytes, static_cast<size_t>(base::available_memory())));
}

int64_t unsigned_byte(char c) {
  return static_cast<unsigned char>(c);
}

void check_label(
    const std::string& path,
    int64_t number,
    int64_t label,
    int64_t num_classes) {
  if (label >= num_classes) {
    refuse(
        path,
        c10::str(
            "image ",
            number,
            " has label ",
            label,
            ", there are ",
            num_classes,
            " classes"));
  }
}

// The sizes in an idx file of bytes; data begins behind them.
std::vector<int64_t> idx_sizes(
    const std::string& path,
    const std::string& bytes,
    size_t num_sizes) {
  constexpr size_t kWord = 4;
  if (bytes.size() < kWord * (1 + num_sizes)) {
    refuse(path, c10::str("it has ", bytes.size(), " bytes"));
  }
  const std::array<int64_t, 4> expected{
      0, 0, 8, static_cast<int64_t>(num_sizes)}; // 8: bytes
  for (size_t i = 0; i < kWord; ++i) {
    if (unsigned_byte(bytes[i]) != expected[i]) {
      refuse(
          path,
          c10::str("it is no idx file of bytes with ", num_sizes, " sizes"));
    }
  }
  std::vector<int64_t> sizes;
  int64_t numel = 1;
  for (size_t i = 1; i <= num_sizes; ++i) {
    int64_t size = 0;
    for (size_t j = 0; j < kWord; ++j) { // big-endian
      size = size << 8 | unsigned_byte(bytes[kWord * i + j]);
    }
    sizes.push_back(size);
    if (size == 0) {
      refuse(path, c10::str("size ", i, " of ", num_sizes, " in it is 0"));
    }
    if (__builtin_mul_overflow(numel, size, &numel)) {
      refuse(path, "its sizes are larger than any file");
    }
  }
  const auto data_bytes =
      static_cast<int64_t>(bytes.size() - kWord * (1 + num_sizes));
  if (numel != data_bytes) {
    refuse(
        path,
        c10::str(
            "its sizes ",
            c10::IntArrayRef(sizes),
            " need ",
            numel,
            " bytes, it has ",
            data_bytes));
  }
  return sizes;
}

} // namespace

ImageSet read_cifar10(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  int64_t count = 0;
  for (const auto& path : paths) {
    files.push_back(contents_of(path));
    const auto bytes = static_cast<int64_t>(files.back().size());
    if (bytes == 0 || bytes % (1 + kCifarImageBytes) != 0) {
      refuse(
          path,
          c10::str(
              "it has ",
              bytes,
              " bytes, expected a multiple of ",
              1 + kCifarImageBytes));
    }
    count += bytes / (1 + kCifarImageBytes);
  }
  const at::Tensor images =
      at::empty({count, 3, kCifarSide, kCifarSide}, at::kByte);
  const at::Tensor labels = at::empty({count}, at::kLong);
  auto* image = images.mutable_data_ptr<uint8_t>();
  auto* label = labels.mutable_data_ptr<int64_t>();
  for (size_t file = 0; file < files.size(); ++file) {
    int64_t number = 0;
    for (const char* record = files[file].data();
         record < files[file].data() + files[file].size();
         record += 1 + kCifarImageBytes) {
      *label = unsigned_byte(record[0]);
      check_label(paths[file], number++, *label++, kCifarClasses);
      std::memcpy(image, record + 1, kCifarImageBytes);
      image += kCifarImageBytes;
    }
  }
  return in_memory(images, labels, kCifarClasses);
}

ImageSet read_idx(
    const std::string& images_path,
    const std::string& labels_path,
    int64_t num_classes) {
  const std::string image_bytes = contents_of(images_path);
  const auto sizes = idx_sizes(images_path, image_bytes, 3);
  const std::string label_bytes = contents_of(labels_path);
  const int64_t count = idx_sizes(labels_path, label_bytes, 1).front();
  if (count != sizes[0] || count == 0) {
    refuse(
        labels_path,
        c10::str(
            "it has ",
            count,
            " labels for the ",
            sizes[0],
            " images in '",
            images_path,
            "'"));
  }
  const at::Tensor images =
      at::empty({count, 1, sizes[1], sizes[2]}, at::kByte);
  const at::Tensor labels = at::empty({count}, at::kLong);
  std::memcpy(
      images.mutable_data_ptr(),
      image_bytes.data() + image_bytes.size() - images.nbytes(),
      images.nbytes());
  const char* label = label_bytes.data() + label_bytes.size() - count;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = unsigned_byte(label[i]);
    check_label(labels_path, i, value, num_classes);
    labels.mutable_data_ptr<int64_t>()[i] = value;
  }
  return in_memory(images, labels, num_classes);
}

ImageSet in_memory(
    const at::Tensor& images,
    const at::Tensor& labels,
    int64_t num_classes) {
  return {
      .labels = labels,
      .num_classes = num_classes,
      .class_names = {},
      .image_sizes = images.sizes().slice(1).vec(),
      .image = [images](int64_t number) { return images.select(0, number); }};
}

} // namespace zero::data
