// The loop over blocks.
#include "optim/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace zero::optim {
namespace {

class ForBlocks : public ::testing::Test {
 protected:
  ~ForBlocks() override {
    at::set_num_threads(before_);
  }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(ForBlocks, VisitEveryElementOnceInWholeBlocks) {
  for (const int num_threads : {1, 2, 5}) {
    at::set_num_threads(num_threads);
    for (const int64_t numel :
         {int64_t{0}, int64_t{1}, kBlock, kBlock + 1, 7 * kBlock + 3}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(numel));
      for_blocks(numel, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % kBlock, 0);
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) {
          ++visits[static_cast<size_t>(i)];
        }
      });
      for (const auto& count : visits) {
        ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST_F(ForBlocks, UseAsManyThreadsAsTorchMay) {
  for (const int num_threads : {1, 2, 3}) {
    at::set_num_threads(num_threads);
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for_blocks(100 * kBlock, [&](int64_t /*begin*/, int64_t /*end*/) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(threads.size(), static_cast<size_t>(num_threads));
  }
}

TEST_F(ForBlocks, FewElementsStayOnTheCallersThread) {
  at::set_num_threads(2);
  for_blocks(kBlock, [&, caller = std::this_thread::get_id()](auto, auto) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

} // namespace
} // namespace zero::optim
