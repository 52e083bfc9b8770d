#include "base/tensor_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace zero::base {
namespace {

constexpr auto kLarge = static_cast<int64_t>(kLargeTensorBytes);
constexpr auto kIdle = static_cast<int64_t>(kIdleTensorBytes);

at::Tensor bytes(int64_t numel) {
  return at::full({numel}, 7, at::kByte);
}

class TensorMemoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    from_before = new at::Tensor(bytes(2 * kLarge));
    keep_large_tensors();
  }
  static void TearDownTestSuite() {
    delete from_before;
  }

  void SetUp() override {
    used_before_ = large_tensor_memory().used_bytes;
  }

  size_t newly_used() const {
    return large_tensor_memory().used_bytes - used_before_;
  }

  static at::Tensor* from_before;
  size_t used_before_ = 0;
};
at::Tensor* TensorMemoryTest::from_before = nullptr;

TEST_F(TensorMemoryTest, OnlyLargeTensorsLieInBlocks) {
  const at::Tensor small = bytes(kLarge - 1);
  EXPECT_EQ(newly_used(), 0);
  const at::Tensor large = bytes(kLarge + 1);
  EXPECT_EQ(newly_used(), kLarge + 4096);
  EXPECT_EQ(large.sum().item<int64_t>(), 7 * (kLarge + 1));
}

TEST_F(TensorMemoryTest, ATensorThatEndsLeavesItsBlockToTheNextOne) {
  at::Tensor first = bytes(3 * kLarge);
  const void* place = first.const_data_ptr();
  first.reset();
  EXPECT_EQ(newly_used(), 0);
  EXPECT_GE(large_tensor_memory().idle_bytes, 3 * kLarge);
  const at::Tensor second = at::empty({3 * kLarge - 100}, at::kByte);
  EXPECT_EQ(second.const_data_ptr(), place);
  // Half of it would be wasted.
  first = bytes(6 * kLarge);
  place = first.const_data_ptr();
  first.reset();
  const at::Tensor third = at::empty({3 * kLarge}, at::kByte);
  EXPECT_NE(third.const_data_ptr(), place);
}

TEST_F(TensorMemoryTest, NoMoreThanTheLimitIsKept) {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(bytes(kIdle / 4));
  }
  EXPECT_GE(newly_used(), 10 * kIdle / 4);
  tensors.clear();
  EXPECT_EQ(newly_used(), 0);
  EXPECT_LE(large_tensor_memory().idle_bytes, kIdleTensorBytes);
  bytes(2 * kIdle).reset();
  EXPECT_LE(large_tensor_memory().idle_bytes, kIdleTensorBytes);
}

TEST_F(TensorMemoryTest, TensorsFromBeforeAndRawMemoryEndAsTheyShould) {
  from_before->resize_({8 * kLarge}); // by the allocator it began with
  EXPECT_EQ(newly_used(), 0);
  from_before->reset();
  auto* allocator = c10::GetCPUAllocator();
  for (const size_t size : {size_t{64}, 2 * kLargeTensorBytes}) {
    void* raw = allocator->raw_allocate(size);
    static_cast<char*>(raw)[size - 1] = 1;
    allocator->raw_deallocate(raw);
  }
  EXPECT_EQ(newly_used(), 0);
}

TEST_F(TensorMemoryTest, MoreThanThereIsGetsLibtorchsError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers' malloc ends the program instead";
#endif
  EXPECT_THROW(at::empty({int64_t{1} << 60}, at::kByte), c10::Error);
  EXPECT_EQ(newly_used(), 0);
}

TEST_F(TensorMemoryTest, ThreadsTakeAndGiveBackAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      at::Tensor kept;
      for (int turn = 0; turn < 50; ++turn) {
        at::Tensor mine =
            at::full({kLarge * (1 + (turn + thread) % 3)}, thread, at::kByte);
        EXPECT_EQ(mine[-1].item<int>(), thread);
        std::swap(kept, mine);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(newly_used(), 0);
}

TEST_F(TensorMemoryTest, AForkedChildHasTensorsToo) {
  const at::Tensor before = bytes(2 * kLarge);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const at::Tensor after = at::empty({2 * kLarge}, at::kByte);
    ::_exit(before.const_data_ptr() != after.const_data_ptr() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace zero::base
