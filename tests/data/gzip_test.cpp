#include "data/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

class GzipTest : public testing::Test {
 protected:
  void write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // What zlib makes of a text, through a file.
  std::string packed(const std::string& text) {
    const std::string path = folder_.path() / "packed.gz";
    gzFile file = ::gzopen(path.c_str(), "wb9");
    ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    ::gzclose(file);
    return test::read_file(path);
  }
  std::string unpacked(size_t limit = kNoLimit) {
    return read_gzip_file(path_, "'the file'", limit);
  }
  std::string refused(size_t limit = kNoLimit) {
    try {
      unpacked(limit);
    } catch (const CorruptionError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path() / "file";
};

// Compressed hardly at all, so that it is many blocks of the file.
std::string noise(size_t bytes) {
  std::string text(bytes, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

TEST_F(GzipTest, WhatWasPackedComesOut) {
  const std::vector<std::string> texts{
      "",
      "a",
      "To be, or not to be",
      noise(1'000'000),
      std::string(65'536, 'x'),
      std::string(3'000'000, '\0')};
  for (const auto& text : texts) {
    write(packed(text));
    EXPECT_EQ(unpacked() == text, true) << text.size();
    EXPECT_EQ(unpacked(text.size()) == text, true) << text.size();
  }
}

TEST_F(GzipTest, PartsAreJoined) {
  const std::string noisy = noise(100'000);
  write(packed("one") + packed("") + packed(noisy) + packed("four"));
  EXPECT_EQ(unpacked() == "one" + noisy + "four", true);
}

TEST_F(GzipTest, CutAnywhereIsRefused) {
  const std::string whole = packed("To be, or not to be");
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_TRUE(has(refused(), "it is cut short, after")) << size;
    write(whole + whole.substr(0, size));
    EXPECT_EQ(has(refused(), "it is cut short, after"), size > 0) << size;
  }
}

TEST_F(GzipTest, WhatIsWrongIsRefused) {
  const std::string whole = packed(noise(1000));
  for (const size_t from_end : {1, 5, 500}) { // length, checksum, content
    std::string bytes = whole;
    bytes[bytes.size() - from_end] ^= '\x20';
    write(bytes);
    EXPECT_TRUE(has(refused(), "not, or not only, what gzip makes"))
        << refused();
    EXPECT_TRUE(has(refused(), "'the file' cannot be used")) << refused();
  }
  write(whole + "and more");
  EXPECT_TRUE(has(refused(), "not, or not only")) << refused();
  write("no gzip at all");
  EXPECT_TRUE(has(refused(), "not, or not only")) << refused();
}

TEST_F(GzipTest, NoMoreComesOutThanTheLimit) {
  const std::string text = noise(100'000);
  write(packed(text));
  EXPECT_TRUE(has(refused(99'999), "more than 99999 bytes")) << refused(99'999);
  EXPECT_EQ(refused(100'000), "not refused");
  write(packed("abc") + packed("def"));
  EXPECT_TRUE(has(refused(5), "more than 5 bytes come out")) << refused(5);
  EXPECT_TRUE(has(refused(0), "more than 0 bytes come out")) << refused(0);
  write(packed(""));
  EXPECT_EQ(unpacked(0), "");
}

// Kilobytes that this process had in memory at most.
int64_t peak_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) {
      return kilobytes;
    }
  }
  return 0;
}

TEST_F(GzipTest, ABombTakesNoMemoryBeyondTheLimit) {
  const std::string megabyte(size_t{1} << 20, '\0');
  gzFile file = ::gzopen(path_.c_str(), "wb9");
  for (int i = 0; i < 80; ++i) {
    ::gzwrite(file, megabyte.data(), 1 << 20);
  }
  ::gzclose(file);
  ASSERT_LT(std::filesystem::file_size(path_), size_t{1} << 20);
  std::ofstream("/proc/self/clear_refs") << "5"; // the peak begins anew
  const int64_t before = peak_kilobytes();
  EXPECT_TRUE(has(refused(size_t{1} << 20), "more than 1048576 bytes"));
  EXPECT_LT(peak_kilobytes() - before, 20 << 10);
  // What comes out is there once, not twice.
  EXPECT_EQ(unpacked().size(), size_t{80} << 20);
  EXPECT_LT(peak_kilobytes() - before, 100 << 10);
  EXPECT_GT(peak_kilobytes() - before, 70 << 10);
}

TEST_F(GzipTest, WhatAFileSaysOfItsLengthIsNotBelieved) {
  std::string bytes = packed(noise(1000));
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  write(bytes);
  EXPECT_TRUE(has(refused(), "not, or not only")) << refused();
}

TEST_F(GzipTest, FilesThatAreNotPackedAreReadAsTheyAre) {
  const auto read = [&](size_t limit) {
    return read_maybe_gzip(path_, "'the file'", limit);
  };
  const std::string noisy = "\x1f" + noise(200'000);
  for (const std::string& text : {std::string(), std::string("\x1f"), noisy}) {
    write(text);
    EXPECT_EQ(read(text.size()) == text, true) << text.size();
    write(packed(text));
    EXPECT_EQ(read(text.size()) == text, true) << text.size();
  }
  write("abcdef");
  const std::string text = error_of([&] { read(5); });
  EXPECT_TRUE(has(text, "more than 5 bytes come out")) << text;
}

TEST_F(GzipTest, FilesThatCannotBeReadAreNamed) {
  const std::string missing =
      error_of([] { read_gzip_file("/nowhere.gz", "'it'", 9); });
  EXPECT_TRUE(has(missing, "cannot read 'it': open failed")) << missing;
  const std::string folder =
      error_of([&] { read_maybe_gzip(folder_.path(), "'it'", 9); });
  EXPECT_TRUE(has(folder, "cannot read 'it': it is a folder")) << folder;
}

} // namespace
} // namespace zero::data
