#include "data/image_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/make_image.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::data {
namespace {

using test::error_of;
using test::has;

class ImageFolderTest : public testing::Test {
 protected:
  // Makes the folders on the way, too.
  void write(const std::string& name, const std::string& bytes) {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void make_folder(const std::string& name) {
    std::filesystem::create_directories(folder_.path() / name);
  }
  // 4 x 4 pixels of one brightness.
  void write_png(const std::string& name, uint8_t value) {
    const std::vector<uint8_t> pixels(size_t{4} * 4 * 3, value);
    write(name, test::make_png({.width = 4, .height = 4}, pixels));
  }
  std::string list_error() const {
    return error_of([&] { list_image_folder(root_); });
  }
  std::string open_error(int64_t size, int64_t num_channels) const {
    return error_of([&] { open_image_folder(root_, size, num_channels); });
  }

  test::TemporaryFolder folder_;
  std::string root_ = folder_.path();
};

TEST_F(ImageFolderTest, ClassesAndFilesAreSorted) {
  for (const char* name :
       {"cats/2.jpg",
        "cats/10.JPG",
        "birds/b.Png",
        "birds/a.jpeg",
        "Zebras/z.png",
        "birds/notes.txt",
        "birds/png",
        "birds/.hidden.png",
        ".git/x.png",
        "readme.png"}) {
    write(name, "");
  }
  make_folder("birds/more");
  const ImageFolder folder = list_image_folder(root_);
  EXPECT_EQ(
      folder.classes, (std::vector<std::string>{"Zebras", "birds", "cats"}));
  const std::vector<std::pair<std::string, int64_t>> expected{
      {root_ + "/Zebras/z.png", 0},
      {root_ + "/birds/a.jpeg", 1},
      {root_ + "/birds/b.Png", 1},
      {root_ + "/cats/10.JPG", 2},
      {root_ + "/cats/2.jpg", 2}};
  EXPECT_EQ(folder.files, expected);
}

TEST_F(ImageFolderTest, LinksAreFollowed) {
  write("elsewhere/birds/a.png", "");
  make_folder("images");
  std::filesystem::create_directory_symlink(
      folder_.path() / "elsewhere/birds", folder_.path() / "images/birds");
  const ImageFolder folder = list_image_folder(root_ + "/images");
  ASSERT_EQ(folder.files.size(), 1);
  EXPECT_EQ(folder.files[0].first, root_ + "/images/birds/a.png");
}

TEST_F(ImageFolderTest, AllProblemsAreToldAtOnce) {
  EXPECT_TRUE(has(list_error(), "has no folders, expected one for each class"))
      << list_error();
  write("birds/a.png", "");
  write("cats/readme.txt", "");
  make_folder("dogs");
  make_folder("birds/b.png");
  const std::string text = list_error();
  EXPECT_TRUE(has(text, "birds/b.png' is no file")) << text;
  EXPECT_TRUE(has(text, "cats' has no images")) << text;
  EXPECT_TRUE(has(text, "dogs' has no images")) << text;
  EXPECT_TRUE(has(text, "Fix: give each class a folder")) << text;
  for (int i = 0; i < 30; ++i) {
    make_folder("more" + std::to_string(i));
  }
  EXPECT_TRUE(has(list_error(), "\n  and 13 more\nFix")) << list_error();
}

TEST_F(ImageFolderTest, FoldersThatCannotBeReadAreNamed) {
  const std::string missing = error_of([] { list_image_folder("/nowhere"); });
  EXPECT_TRUE(has(missing, "folder of images '/nowhere': No such file"))
      << missing;
  write("file", "");
  const std::string file =
      error_of([&] { list_image_folder(root_ + "/file"); });
  EXPECT_TRUE(has(file, "Not a directory")) << file;
}

TEST_F(ImageFolderTest, AllImagesAreInTheirPlace) {
  constexpr int kImages = 40;
  for (int i = 0; i < kImages; ++i) {
    const std::string name = std::to_string(100 + i) + ".png";
    write_png((i < 25 ? "a/" : "b/") + name, static_cast<uint8_t>(5 * i));
  }
  write(
      "b/200.jpg",
      test::make_jpeg(
          {.width = 16, .height = 8, .num_components = 1},
          std::vector<uint8_t>(size_t{16} * 8, 99)));
  const ImageSet set = open_image_folder(root_, 2, 3);
  EXPECT_EQ(set.num_classes, 2);
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(set.size(), kImages + 1);
  EXPECT_EQ(set.image_sizes, (std::vector<int64_t>{3, 2, 2}));
  for (int i = kImages - 1; i >= 0; --i) { // in any order
    EXPECT_EQ(set.labels[i].item<int>(), i < 25 ? 0 : 1);
    const at::Tensor image = set.image(i);
    ASSERT_EQ(image.sizes(), at::IntArrayRef(set.image_sizes));
    EXPECT_EQ(image.min().item<int>(), 5 * i);
    EXPECT_EQ(image.max().item<int>(), 5 * i);
  }
  EXPECT_NEAR(set.image(kImages)[2][1][1].item<int>(), 99, 1);
  EXPECT_EQ(
      open_image_folder(root_, 2, 1).image(0).sizes(),
      at::IntArrayRef({1, 2, 2}));
}

TEST_F(ImageFolderTest, AFileThatIsWrongIsNamedWhenItIsAskedFor) {
  write_png("a/1.png", 1);
  write("a/2.png", "");
  write("a/3.png", "wrong");
  const ImageSet set = open_image_folder(root_, 4, 3);
  EXPECT_EQ(set.image(0).max().item<int>(), 1);
  const std::string empty = error_of([&] { set.image(1); });
  EXPECT_TRUE(has(empty, "a/2.png' cannot be used: it is empty")) << empty;
  const std::string wrong = error_of([&] { set.image(2); });
  EXPECT_TRUE(has(wrong, "a/3.png' cannot be used")) << wrong;
}

TEST_F(ImageFolderTest, RequestsThatMakeNoSenseAreRefused) {
  write_png("a/1.png", 1);
  const std::string text = open_error(0, 2);
  EXPECT_TRUE(has(text, "their size is 0, expected 1 to 65500 pixels")) << text;
  EXPECT_TRUE(has(text, "they have 2 channels, expected 3, or 1")) << text;
}

} // namespace
} // namespace zero::data
