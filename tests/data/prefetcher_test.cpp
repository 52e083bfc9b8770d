#include "data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "engine/error_of.h"

namespace zero::data {
namespace {

TEST(Prefetcher, BatchesComeInOrder) {
  int made = 0;
  Prefetcher<int> batches([&] { return made++; }, 3);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(batches.next(), i);
  }
}

TEST(Prefetcher, NoMoreAreMadeAheadThanItsDepth) {
  std::atomic<int> made = 0;
  Prefetcher<int> batches([&] { return made++; }, 4);
  batches.next();
  for (int i = 0; i < 1000 && made < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(made, 5);
}

TEST(Prefetcher, ErrorsComeAfterWhatWasMadeBeforeThem) {
  int made = 0;
  Prefetcher<int> batches(
      [&] {
        if (made == 2) {
          throw std::runtime_error("the disk is gone");
        }
        return made++;
      },
      8);
  EXPECT_EQ(batches.next(), 0);
  EXPECT_EQ(batches.next(), 1);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(test::error_of([&] { batches.next(); }), "the disk is gone");
  }
}

TEST(Prefetcher, EndsWhileBatchesWait) {
  for (int i = 0; i < 50; ++i) {
    const Prefetcher<int> batches([] { return 1; }, 2);
  }
}

} // namespace
} // namespace zero::data
