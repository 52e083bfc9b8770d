// Misspelt words are recognised, other words are not.
#include "config/nearest.h"

#include <gtest/gtest.h>

namespace zero::config {
namespace {

TEST(Nearest, DistanceCountsTypingMistakes) {
  EXPECT_EQ(spelling_distance("stage", "stage"), 0U);
  EXPECT_EQ(spelling_distance("stge", "stage"), 1U);
  EXPECT_EQ(spelling_distance("sttage", "stage"), 1U);
  EXPECT_EQ(spelling_distance("stane", "stage"), 1U);
  EXPECT_EQ(spelling_distance("satge", "stage"), 1U); // swapped
  EXPECT_EQ(spelling_distance("", "stage"), 5U);
  EXPECT_EQ(spelling_distance("stage", ""), 5U);
}

TEST(Nearest, CaseAndDashesDoNotCount) {
  EXPECT_EQ(spelling_distance("Overlap-Comm", "overlap_comm"), 0U);
}

TEST(Nearest, TheNearestOneIsTaken) {
  EXPECT_EQ(
      nearest("train_batchsize", {"train", "train_batch_size", "trace"}),
      "train_batch_size");
}

TEST(Nearest, AnotherWordIsNoGuess) {
  EXPECT_EQ(nearest("colour", {"stage", "lr"}), std::nullopt);
  EXPECT_EQ(nearest("x", {"lr"}), std::nullopt);
  EXPECT_EQ(nearest("", {"lr"}), std::nullopt);
  EXPECT_EQ(nearest("stage", {}), std::nullopt);
}

TEST(Nearest, AVeryLongWordCostsNothing) {
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), {"stage"}), std::nullopt);
}

} // namespace
} // namespace zero::config
