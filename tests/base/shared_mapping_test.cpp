// Shared memory without a name.
#include "base/shared_mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/error.h>

#include <cstring>

namespace zero::base {
namespace {

TEST(SharedMapping, AnotherProcessSeesWhatIsWritten) {
  auto mapping = SharedMapping::create("test", 100'000);
  const auto address = mapping->address();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // A mapping of its own: the inherited one is not asked.
    mapping.reset();
    auto opened = SharedMapping::open({::getppid(), address.fd});
    std::memcpy(opened->data() + 99'990, "hello", 6);
    ::_exit(opened->bytes() == 100'000 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(
      reinterpret_cast<const char*>(mapping->data() + 99'990), "hello");
}

TEST(SharedMapping, AProcessMapsASegmentOnce) {
  auto mapping = SharedMapping::create("test", 5000);
  auto again = SharedMapping::open(mapping->address());
  EXPECT_EQ(mapping->data(), again->data());
  auto other = SharedMapping::create("test", 5000);
  EXPECT_NE(mapping->data(), other->data());
}

TEST(SharedMapping, NobodyCanCutItShort) {
  auto mapping = SharedMapping::create("test", 8192);
  const int fd = mapping->address().fd;
  EXPECT_NE(::ftruncate(fd, 4096), 0);
  EXPECT_NE(::ftruncate(fd, 16384), 0);
  EXPECT_NE(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedMapping, OutlivesTheProcessThatMadeIt) {
  // The child makes it and dies; the parent has opened it meanwhile.
  int ready[2];
  int opened[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(opened), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto mapping = SharedMapping::create("test", 4096);
    std::memcpy(mapping->data(), "left", 5);
    const int fd = mapping->address().fd;
    char byte = 0;
    if (::write(ready[1], &fd, sizeof(fd)) != sizeof(fd) ||
        ::read(opened[0], &byte, 1) != 1) {
      ::_exit(1);
    }
    ::raise(SIGKILL);
  }
  int fd = -1;
  ASSERT_EQ(::read(ready[0], &fd, sizeof(fd)), ssize_t{sizeof(fd)});
  auto mapping = SharedMapping::open({pid, fd});
  ASSERT_EQ(::write(opened[1], "x", 1), 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(mapping->data()), "left");
  for (const int end : {ready[0], ready[1], opened[0], opened[1]}) {
    ::close(end);
  }
}

TEST(SharedMapping, WhatIsNoSegmentIsRefused) {
  EXPECT_THROW(SharedMapping::open({::getpid(), 9999}), IoError);
  EXPECT_THROW(SharedMapping::open({999'999'999, 3}), IoError);
  // A file that anybody could shrink would crash its readers.
  const int unsealed = ::memfd_create("unsealed", MFD_CLOEXEC);
  EXPECT_THROW(SharedMapping::open({::getpid(), unsealed}), IoError);
  ::close(unsealed);
}

TEST(SharedMapping, AClosedAddressKeepsTheMemory) {
  auto mapping = SharedMapping::create("test", 4096);
  mapping->close_address();
  std::memset(mapping->data(), 1, 4096);
  EXPECT_THROW(mapping->address(), Error);
}

TEST(SharedMapping, MoreThanThereIsAnError) {
  try {
    SharedMapping::create("test", size_t{1} << 46);
    ADD_FAILURE();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("Fix:"), std::string::npos)
        << error.what();
  }
}

} // namespace
} // namespace zero::base
