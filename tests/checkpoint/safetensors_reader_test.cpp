#include "checkpoint/safetensors_reader.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <zero/error.h>

#include <fstream>

#include "checkpoint/example_file.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::checkpoint {
namespace {

using test::TemporaryFolder;

class SafetensorsReaderTest : public testing::Test {
 protected:
  // A file with this header and so many bytes of data.
  void write(const std::string& header, size_t data_bytes) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) {
      bytes[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
    }
    write_bytes(bytes + header + std::string(data_bytes, '\1'));
  }

  void write_bytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  std::string refused() {
    try {
      const SafetensorsReader reader(path_);
      return "no error";
    } catch (const CorruptionError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() / "a.safetensors";
};

TEST_F(SafetensorsReaderTest, ReadsWhatTheWriterWrote) {
  write_example(path_);

  const SafetensorsReader reader(path_);
  ASSERT_EQ(reader.entries().size(), 3);
  EXPECT_EQ(reader.entries()[1].name, "nothing");
  EXPECT_TRUE(at::equal(
      reader.read("weight"), at::tensor(kExampleWeight).view({2, 3})));
  EXPECT_EQ(reader.read("nothing").numel(), 0);
  EXPECT_EQ(reader.read("count").item<int64_t>(), 7);
  EXPECT_TRUE(test::has(
      test::error_of([&] { reader.read("bias"); }), "no tensor 'bias'"));
}

TEST_F(SafetensorsReaderTest, FilesThatAreNotThereAreNamed) {
  for (const auto& path : {path_, folder_.path().string()}) {
    const std::string text =
        test::error_of([&] { const SafetensorsReader reader(path); });
    EXPECT_TRUE(test::has(text, "cannot read '" + path)) << text;
  }
}

TEST_F(SafetensorsReaderTest, WhatIsCutShortIsRefused) {
  write_bytes("");
  EXPECT_TRUE(test::has(refused(), "it has 0 bytes"));
  write_bytes(std::string(8, '\xff'));
  EXPECT_TRUE(test::has(refused(), "its header would have")) << refused();
  write(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", 7);
  EXPECT_TRUE(test::has(refused(), "there are 7")) << refused();
}

TEST_F(SafetensorsReaderTest, HeadersThatLieAreRefused) {
  const auto expect = [&](const std::string& header,
                          size_t data_bytes,
                          const std::string& part) {
    write(header, data_bytes);
    const std::string text = refused();
    EXPECT_TRUE(test::has(text, part)) << text;
  };
  expect("{", 0, "its header is not right");
  expect("[1]", 0, "its header is no object");
  expect(R"({"a": 1})", 0, "has no dtype, shape");
  expect(R"({"a": {"dtype": "F32", "shape": [2]}})", 8, "has no dtype, shape");
  expect(
      R"({"a": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}})",
      8,
      "unknown type F31");
  expect(
      R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})",
      8,
      "has no dtype, shape");
  expect(
      R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})",
      8,
      "of sizes [3] has 8 bytes");
  expect(
      R"({"a": {"dtype": "U8", "shape": [4294967296, 4294967296, 2],
          "data_offsets": [0, 0]}})",
      0,
      "has 0 bytes");
  expect(
      R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
          "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})",
      3,
      "bytes 1 to 2 belong to two tensors");
  expect(
      R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})",
      3,
      "bytes 0 to 1 belong to no tensor");
  expect(
      R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}})",
      3,
      "tensors have 2 bytes, the file 3");
}

// Any byte of a good file may be any other: an error, or another good file.
TEST_F(SafetensorsReaderTest, NoByteMakesItDoAnythingElse) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write(header, 8);
  const std::string good = test::read_file(path_);
  for (size_t place = 0; place < good.size(); ++place) {
    for (const char c : {'\0', '\x7f', '\xff', '0', '"', '[', '}'}) {
      std::string bytes = good;
      bytes[place] = c;
      write_bytes(bytes);
      try {
        const SafetensorsReader reader(path_);
        for (const auto& entry : reader.entries()) {
          EXPECT_LE(reader.read(entry.name).nbytes(), 8);
        }
      } catch (const CorruptionError&) { // as it should be
      }
    }
  }
}

} // namespace
} // namespace zero::checkpoint
