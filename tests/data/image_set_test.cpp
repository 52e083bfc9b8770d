#include "data/image_set.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

class ImageSetTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  test::TemporaryFolder folder_;
};

std::string record(char label, char red, char blue) {
  return label + std::string(1024, red) + std::string(1024, '\0') +
      std::string(1024, blue);
}

std::string idx(const std::vector<char>& sizes, const std::string& data) {
  std::string bytes{0, 0, 8, static_cast<char>(sizes.size())};
  for (const char size : sizes) {
    bytes += std::string(3, '\0') + size;
  }
  return bytes + data;
}

TEST_F(ImageSetTest, ReadsCifar10) {
  const auto first = write("1.bin", record(3, '\x01', '\xff'));
  const auto second =
      write("2.bin", record(9, '\x02', '\xfe') + record(0, '\x03', '\xfd'));
  const auto set = read_cifar10({first, second});
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.num_classes, 10);
  EXPECT_EQ(set.image_sizes, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(set.labels[1].item<int>(), 9);
  EXPECT_EQ(set.image(1)[0][31][31].item<int>(), 2);
  EXPECT_EQ(set.image(2)[2][0][0].item<int>(), 253);
}

TEST_F(ImageSetTest, ReadsIdx) {
  const auto images = write("images", idx({2, 2, 3}, "abcdefghijkl"));
  const auto labels = write("labels", idx({2}, {4, 9}));
  const auto set = read_idx(images, labels, 10);
  EXPECT_EQ(set.image_sizes, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(set.image(1)[0][0][2].item<int>(), 'i');
  EXPECT_EQ(set.labels[1].item<int>(), 9);
  const std::string text = error_of([&] { read_idx(images, labels, 9); });
  EXPECT_TRUE(has(text, "image 1 has label 9, there are 9 classes")) << text;
}

TEST_F(ImageSetTest, FilesThatCannotBeUsedAreNamed) {
  EXPECT_TRUE(
      has(error_of([] { read_cifar10({"/nowhere.bin"}); }),
          "cannot read '/nowhere.bin'"));
  const auto expect_cifar = [&](const std::string& bytes,
                                const std::string& part) {
    const auto path = write("bad.bin", bytes);
    const std::string text = error_of([&] { read_cifar10({path}); });
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_TRUE(has(text, path)) << text;
  };
  expect_cifar("", "it has 0 bytes");
  expect_cifar(record(1, 0, 0).substr(1), "expected a multiple of 3073");
  expect_cifar(record(10, 0, 0), "image 0 has label 10");

  const auto labels = write("labels", idx({2}, {4, 9}));
  const auto expect_idx = [&](const std::string& bytes,
                              const std::string& part) {
    const auto path = write("images", bytes);
    const std::string text = error_of([&] { read_idx(path, labels, 10); });
    EXPECT_TRUE(has(text, part)) << text;
  };
  expect_idx("", "it has 0 bytes");
  expect_idx(std::string(16, '\x08'), "it is no idx file");
  expect_idx(idx({2, 2, 3}, "abc"), "need 12 bytes, it has 3");
  expect_idx(
      std::string{0, 0, 8, 3} + std::string(12, '\xff'),
      "larger than any file");
  expect_idx(idx({1, 1, 1}, "a"), "2 labels for the 1 images");
}

} // namespace
} // namespace zero::data
