// Messages say what is needed.
#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace zero::base {
namespace {

TEST(Error, SystemMessageNamesCallAndReason) {
  EXPECT_EQ(
      system_message("cannot map", "mmap", ENOMEM),
      "cannot map: mmap failed: Cannot allocate memory (errno 12)");
}

TEST(Error, CheckEqShowsBothValues) {
  try {
    ZERO_CHECK_EQ(1 + 1, 3);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("got 2 and 3"), std::string::npos)
        << error.what();
  }
}

TEST(Error, TheTreeIsWhatUsersCatch) {
  const PeerLost lost("gone", {2, "all_reduce", 7});
  EXPECT_EQ(lost.rank(), 2);
  EXPECT_EQ(lost.operation(), "all_reduce");
  EXPECT_EQ(lost.sequence(), 7);
  EXPECT_THROW(throw PeerLost("gone", {}), CommError);
  EXPECT_THROW(throw CommTimeout("late", {}), CommError);
  EXPECT_THROW(throw CommError("x"), Error);
  EXPECT_THROW(throw ConfigError("x"), Error);
  EXPECT_THROW(throw IoError("x"), Error);
  EXPECT_THROW(throw CorruptionError("x"), Error);
}

} // namespace
} // namespace zero::base
