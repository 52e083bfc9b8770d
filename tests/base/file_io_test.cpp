#include "base/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

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

} // namespace
} // namespace zero::base
