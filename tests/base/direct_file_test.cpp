#include "base/direct_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file_io.h"
#include "engine/error_of.h"

namespace zero::base {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = DirectFile::kAlignment;
constexpr size_t kBuffer = size_t{8} << 20; // what is written at a time

// No page is like another.
std::string unlike_pages(size_t size, char first = 'a') {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(static_cast<size_t>(first) + i + i / kBlock);
  }
  return bytes;
}

// On a disk as a rule, and in memory, where older systems have no O_DIRECT.
class DirectFileTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const fs::path place = GetParam();
    if (!fs::is_directory(place)) {
      GTEST_SKIP() << "there is no " << place;
    }
    folder_ = make_temporary_folder(place / "zero-test");
  }
  void TearDown() override {
    if (!folder_.empty()) {
      fs::remove_all(folder_);
    }
  }

  std::string path(const std::string& name) const {
    return folder_ / name;
  }

 private:
  fs::path folder_;
};

// Not by EXPECT_EQ, which would print them.
void expect_file(const std::string& path, const std::string& expected) {
  const std::string found = read_file(path, path);
  EXPECT_EQ(found.size(), expected.size());
  const auto [at, other] = std::ranges::mismatch(found, expected);
  EXPECT_TRUE(at == found.end() || other == expected.end())
      << "from byte " << at - found.begin() << " on";
}

TEST_P(DirectFileTest, SizesThatFitNoBlockAreKept) {
  for (const size_t size :
       {size_t{0},
        size_t{1},
        kBlock - 1,
        kBlock,
        kBlock + 1,
        kBuffer - 1,
        kBuffer,
        kBuffer + 1,
        2 * kBuffer + kBlock + 1}) {
    SCOPED_TRACE(size);
    const std::string name = path(std::to_string(size));
    const std::string bytes = unlike_pages(size);
    DirectFile file(name);
    file.append(bytes.data(), bytes.size());
    file.finish();
    expect_file(name, bytes);
  }
}

TEST_P(DirectFileTest, PiecesOfAnySizeFollowEachOther) {
  const std::string bytes = unlike_pages(kBuffer + 3 * kBlock + 7);
  DirectFile file(path("file"));
  size_t piece = 1;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    piece = std::min(2 * piece + 1, bytes.size() - at);
    file.append(bytes.data() + at, piece);
  }
  file.finish();
  expect_file(path("file"), bytes);
}

TEST_P(DirectFileTest, TheBeginCanComeLast) {
  // The second is more than is written at a time.
  for (const size_t header : {kBlock, kBuffer + kBlock}) {
    for (const size_t data : {size_t{0}, size_t{5}, kBuffer + 5}) {
      SCOPED_TRACE(std::to_string(header) + " and " + std::to_string(data));
      const std::string name =
          path(std::to_string(header) + "-" + std::to_string(data));
      const std::string before = unlike_pages(header + data);
      const std::string begin = unlike_pages(header, 'x');
      DirectFile file(name);
      file.append(before.data(), before.size());
      file.replace_begin(begin);
      file.finish();
      expect_file(name, begin + before.substr(header));
    }
  }
}

TEST_P(DirectFileTest, ABeginThatFitsNoBlockIsRefused) {
  const std::string bytes = unlike_pages(kBlock);
  DirectFile file(path("file"));
  file.append(bytes.data(), bytes.size());
  EXPECT_THROW(file.replace_begin(bytes.substr(1)), Error);
}

TEST_P(DirectFileTest, WhatIsThereStays) {
  write_file(path("file"), "old");
  const std::string text =
      test::error_of([&] { const DirectFile file(path("file")); });
  EXPECT_TRUE(test::has(text, "cannot write '" + path("file"))) << text;
  EXPECT_TRUE(test::has(text, "File exists")) << text;
  EXPECT_TRUE(test::has(text, "Fix: ")) << text;
  expect_file(path("file"), "old");
}

TEST_P(DirectFileTest, APlaceThatIsNotThereIsToldOf) {
  EXPECT_THROW(DirectFile(path("nowhere/file")), IoError);
}

INSTANTIATE_TEST_SUITE_P(
    Places,
    DirectFileTest,
    testing::Values(fs::temp_directory_path().string(), "/dev/shm"),
    [](const auto& info) {
      return std::string(info.index == 0 ? "Temporary" : "InMemory");
    });

} // namespace
} // namespace zero::base
