// Which folders are checkpoints, in which order, and what is removed.
#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <zero/error.h>

#include <filesystem>
#include <set>

#include "base/file_io.h"
#include "checkpoint/manifest.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::Strings;

// A folder with something in it.
void make_folder(const fs::path& path) {
  fs::create_directories(path);
  base::write_file(path / "file", "x");
}

Strings names_found(const fs::path& folder) {
  Strings names;
  for (const auto& found : find_checkpoints(folder)) {
    EXPECT_EQ(fs::path(found.path).parent_path(), folder);
    names.push_back(fs::path(found.path).filename());
  }
  return names;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST(CheckpointFolder, TheHighestNumberIsTheNewest) {
  const test::TemporaryFolder folder;
  const Strings newest_first{
      "save-1000000-step-1", // more digits than names usually have
      "save-999999-step-7",
      "save-000012-step-30",
      "save-000011-step-400",
      "save-000010-step-9",
      "save-000009-step-50"};
  for (const size_t i : {3, 0, 5, 1, 4, 2}) {
    make_folder(folder.path() / newest_first[i]);
  }
  EXPECT_EQ(names_found(folder.path()), newest_first);
  const auto third = find_checkpoints(folder.path()).at(2);
  EXPECT_EQ(third.number, 12);
  EXPECT_EQ(third.step, 30);
}

TEST(CheckpointFolder, WhatHasAnotherNameIsNone) {
  const test::TemporaryFolder folder;
  for (const char* name :
       {"notes",
        "save-",
        "save-000001",
        "save-000001-step-",
        "save-000001-step-x",
        "save-000001-step-5.old",
        "save-000001-step-05",
        "save-000001-step--5",
        "save-00001-step-5",
        "save-0000001-step-5",
        "save--00001-step-5",
        "save-00000x-step-5",
        "save-99999999999999999999-step-5",
        " save-000001-step-5",
        ".save-step-5.k2Xz1a",
        ".save-000001-step-5.removed"}) {
    make_folder(folder.path() / name);
  }
  EXPECT_EQ(names_found(folder.path()), Strings{});
  make_folder(folder.path() / "save-000001-step-5");
  EXPECT_EQ(names_found(folder.path()), Strings{"save-000001-step-5"});
}

TEST(CheckpointFolder, OneCanBeNamedItself) {
  const test::TemporaryFolder folder;
  for (const char* name : {"save-000007-step-120", "mine"}) {
    make_folder(folder.path() / name);
    base::write_file(folder.path() / name / kManifestName, "{}");
    for (const char* end : {"", "/", "/."}) {
      const std::string path = (folder.path() / name).string() + end;
      const auto found = find_checkpoints(path);
      ASSERT_EQ(found.size(), 1) << path;
      EXPECT_EQ(found[0].path, path);
      const bool is_named = name != std::string("mine");
      EXPECT_EQ(found[0].number, is_named ? 7 : 0) << path;
      EXPECT_EQ(found[0].step, is_named ? 120 : 0) << path;
    }
  }
}

TEST(CheckpointFolder, NoFolderIsNoCheckpointAndAFileIsAMistake) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(find_checkpoints(folder.path() / "nowhere").empty());
  base::write_file(folder.path() / "file", "x");
  const std::string text =
      test::error_of([&] { find_checkpoints(folder.path() / "file"); });
  EXPECT_TRUE(test::has(text, "cannot read the folder")) << text;
}

TEST(CheckpointFolder, ANewOneHasTheNextNumberWhenItIsComplete) {
  const test::TemporaryFolder folder;
  make_folder(folder.path() / "save-000041-step-900");
  NewCheckpoint made(folder.path(), 7);
  EXPECT_EQ(fs::path(made.path()).parent_path(), folder.path());
  base::write_file(made.path() + "/file", "x");
  EXPECT_EQ(names_found(folder.path()), Strings{"save-000041-step-900"});
  const std::string before = made.path();
  const std::string path = made.commit();
  EXPECT_EQ(path, folder.path() / "save-000042-step-7");
  EXPECT_TRUE(fs::exists(path + "/file"));
  EXPECT_FALSE(fs::exists(before));
}

TEST(CheckpointFolder, OneThatIsGivenUpLeavesNothing) {
  const test::TemporaryFolder folder;
  {
    const NewCheckpoint given_up(folder.path() / "in" / "here", 7);
    base::write_file(given_up.path() + "/file", "x");
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "in" / "here"));
}

TEST(CheckpointFolder, TwoAtATimeDoNotHarmEachOther) {
  const test::TemporaryFolder folder;
  NewCheckpoint first(folder.path(), 7);
  NewCheckpoint second(folder.path(), 7); // the first is no leftover
  EXPECT_TRUE(fs::exists(first.path()));
  EXPECT_EQ(second.commit(), folder.path() / "save-000001-step-7");
  EXPECT_EQ(first.commit(), folder.path() / "save-000002-step-7");
}

TEST(CheckpointFolder, LeftoversAreRemovedUnlessSomebodyIsAtWorkOnThem) {
  const test::TemporaryFolder folder;
  const std::string locked = folder.path() / ".save-step-6.locked";
  make_folder(locked);
  for (const char* name :
       {".save-step-5.k2Xz1a",
        ".save-000001-step-5.removed",
        ".other",
        "save-000002-step-6",
        "saved"}) {
    make_folder(folder.path() / name);
  }
  const std::set<std::string> kept{".other", "save-000002-step-6", "saved"};
  auto kept_and_locked = kept;
  kept_and_locked.insert(".save-step-6.locked");
  {
    const base::UniqueFd lock(::open(locked.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
    remove_leftovers(folder.path());
    EXPECT_EQ(names_in(folder.path()), kept_and_locked);
    EXPECT_TRUE(fs::exists(locked + "/file"));
  }
  remove_leftovers(folder.path());
  EXPECT_EQ(names_in(folder.path()), kept);
  remove_leftovers(folder.path() / "nowhere"); // is no error
}

TEST(CheckpointFolder, OldOnesAreRemovedByTheirNumbers) {
  const test::TemporaryFolder folder;
  const std::set<std::string> all{
      "save-000001-step-90", "save-000002-step-5", "save-000003-step-10"};
  for (const auto& name : all) {
    make_folder(folder.path() / name);
  }
  for (const int keep : {0, 3, 4}) {
    remove_old_checkpoints(folder.path(), keep);
    EXPECT_EQ(names_in(folder.path()), all) << keep;
  }
  remove_old_checkpoints(folder.path(), 2);
  EXPECT_EQ(
      names_in(folder.path()),
      (std::set<std::string>{"save-000002-step-5", "save-000003-step-10"}));
}

} // namespace
} // namespace zero::checkpoint
