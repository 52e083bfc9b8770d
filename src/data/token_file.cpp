#include "data/token_file.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_io.h"
#include "base/unique_fd.h"
#include "data/token_format.h"

namespace zero::data {

namespace {

// Files are little-endian, as all machines are that libzero runs on.
template <class T>
T number_at(const std::byte* place) {
  T value{};
  std::memcpy(&value, place, sizeof(T));
  return value;
}

template <class T>
void widen(const std::byte* from, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = number_at<T>(from + i * static_cast<int64_t>(sizeof(T)));
  }
}

} // namespace

TokenFile::TokenFile(std::string path) : path_(std::move(path)) {
  const auto file =
      base::open_to_read(path_, c10::str("the tokens '", path_, "'"));
  struct stat about {};
  ::fstat(file.get(), &about);
  file_bytes_ = about.st_size;
  if (file_bytes_ == 0) {
    refuse("it is empty");
  }
  void* mapped = ::mmap(
      nullptr,
      static_cast<size_t>(file_bytes_),
      PROT_READ,
      MAP_PRIVATE,
      file.get(),
      0);
  if (mapped == MAP_FAILED) {
    throw IoError(base::system_message(
        c10::str("cannot read '", path_, "'"), "mmap", errno));
  }
  mapping_ = std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(mapped),
      [bytes = static_cast<size_t>(file_bytes_)](const std::byte* data) {
        ::munmap(const_cast<std::byte*>(data), bytes);
      });
  read_header();
}

void TokenFile::refuse(const std::string& what) const {
  throw CorruptionError(c10::str(
      "'",
      path_,
      "' is not a file of tokens: ",
      what,
      ". Fix: make it again with 'zero data'"));
}

void TokenFile::read_header() {
  const std::byte* data = mapping_.get();
  const uint32_t magic = file_bytes_ >= 4 ? number_at<uint32_t>(data) : 0;
  for (const auto& header : kTokenHeaders) {
    if (magic != header.magic) {
      continue;
    }
    if (file_bytes_ < kTokenHeaderBytes) {
      refuse(c10::str("it ends within its header, after ", file_bytes_));
    }
    const auto version = number_at<uint32_t>(data + 4);
    if (version != header.version) {
      refuse(
          c10::str("it has version ", version, ", expected ", header.version));
    }
    data_begin_ = kTokenHeaderBytes;
    token_bytes_ = header.token_bytes;
    num_tokens_ = number_at<uint32_t>(data + 8);
    if (file_bytes_ != data_begin_ + num_tokens_ * token_bytes_) {
      refuse(c10::str(
          "its header says ",
          num_tokens_,
          " tokens, it has ",
          file_bytes_ - data_begin_,
          " bytes of them"));
    }
    return;
  }
  if (file_bytes_ % token_bytes_ != 0) {
    refuse(c10::str("half a token is left of its ", file_bytes_, " bytes"));
  }
  num_tokens_ = file_bytes_ / token_bytes_;
}

at::Tensor TokenFile::read(int64_t begin, int64_t count, int64_t vocabulary)
    const {
  if (begin < 0 || count < 0 || begin > num_tokens_ - count) {
    throw ConfigError(c10::str(
        "'",
        path_,
        "' has ",
        num_tokens_,
        " tokens, expected ",
        count,
        " from ",
        begin,
        " on. Fix: use more text, or shorter sequences"));
  }
  at::Tensor ids = at::empty({count}, at::kLong);
  auto* to = ids.mutable_data_ptr<int64_t>();
  const std::byte* from = tokens() + begin * token_bytes_;
  if (token_bytes_ == 2) {
    check_tokens<uint16_t>(begin, count, vocabulary);
    widen<uint16_t>(from, count, to);
  } else {
    check_tokens<uint32_t>(begin, count, vocabulary);
    widen<uint32_t>(from, count, to);
  }
  return ids;
}

void TokenFile::check_all(int64_t vocabulary) const {
  if (token_bytes_ == 2) {
    check_tokens<uint16_t>(0, num_tokens_, vocabulary);
  } else {
    check_tokens<uint32_t>(0, num_tokens_, vocabulary);
  }
}

template <class T>
void TokenFile::check_tokens(int64_t begin, int64_t count, int64_t vocabulary)
    const {
  const std::byte* from = tokens() + begin * token_bytes_;
  const auto token = [&](int64_t i) {
    return number_at<T>(from + i * static_cast<int64_t>(sizeof(T)));
  };
  T largest = 0;
  for (int64_t i = 0; i < count; ++i) { // without a branch, many at a time
    largest = std::max(largest, token(i));
  }
  for (int64_t i = 0; largest >= vocabulary && i < count; ++i) {
    if (token(i) >= vocabulary) {
      throw CorruptionError(c10::str(
          "'",
          path_,
          "' has ",
          token(i),
          " as token ",
          begin + i,
          ", the vocabulary has ",
          vocabulary,
          ". Fix: use the vocabulary that the file was made with"));
    }
  }
}

} // namespace zero::data
