#include "base/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/unique_fd.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::base {
namespace {

TEST(FileIo, WhatIsWrittenIsRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "file";
  const std::string bytes(300'000, 'x'); // several blocks
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  EXPECT_EQ(write_all(file.get(), bytes), 0);
  EXPECT_EQ(read_file(path, path), bytes);
  EXPECT_GT(read_file(path, path, 1000).size(), 1000);
  EXPECT_LT(read_file(path, path, 1000).size(), bytes.size());
}

TEST(FileIo, WhatTheSystemRefusesIsTold) {
  EXPECT_EQ(write_all(-1, "x"), EBADF);
  const UniqueFd full(::open("/dev/full", O_WRONLY));
  EXPECT_EQ(write_all(full.get(), "x"), ENOSPC);
  for (const std::string path : {"/nowhere/file", "/"}) {
    const std::string text =
        test::error_of([&] { read_file(path, "the list"); });
    EXPECT_TRUE(test::has(text, "cannot read the list")) << text;
    EXPECT_TRUE(test::has(text, "Fix: ")) << text;
  }
}

TEST(FileIo, WhatIsNoFileIsNotWaitedFor) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    const std::string text =
        test::error_of([&] { read_file(path, "the list"); });
    EXPECT_TRUE(test::has(text, "the list: it is no regular file")) << text;
  }
}

mode_t mode_of(const std::string& path) {
  struct stat about = {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 0777;
}

// In a process of its own, whose mask is nobody else's.
TEST(FileIo, WhatIsMadeHasTheUsersPermissions) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "made";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::umask(0027);
    write_file(path, "x");
    const std::string made = make_temporary_folder(path);
    const bool is_right = mode_of(path) == 0640 && mode_of(made) == 0750;
    ::_exit(is_right && ::umask(0) == 0027 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FileIo, TemporaryFoldersHaveNamesOfTheirOwn) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "new";
  const std::string first = make_temporary_folder(path);
  const std::string second = make_temporary_folder(path);
  EXPECT_NE(first, second);
  for (const std::string& made : {first, second}) {
    EXPECT_TRUE(made.starts_with(path + '.')) << made;
    EXPECT_EQ(made.size(), path.size() + 7) << made;
    EXPECT_TRUE(std::filesystem::is_empty(made)) << made;
  }
  const std::string text =
      test::error_of([] { make_temporary_folder("/nowhere/new"); });
  EXPECT_TRUE(test::has(text, "cannot make a folder in '/nowhere'")) << text;
  EXPECT_TRUE(test::has(text, "Fix: ")) << text;
}

} // namespace
} // namespace zero::base
