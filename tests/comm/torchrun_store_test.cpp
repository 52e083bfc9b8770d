// How the ranks of torchrun meet at a store, which is one in this process here.
#include "comm/net/torchrun_store.h"

#include <gtest/gtest.h>
#include <zero/error.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace zero::comm {
namespace {

c10::intrusive_ptr<c10d::Store> make_store() {
  return c10::make_intrusive<c10d::HashStore>();
}

TEST(TorchrunStore, EveryRankGetsWhatEachGives) {
  constexpr int kSize = 3;
  const auto store = make_store();
  std::atomic<int> good = 0;
  // Twice: ranks that are started again meet among themselves.
  for (const std::string time : {"first", "second"}) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSize; ++rank) {
      threads.emplace_back([&, rank] {
        const auto gather = gather_at(store, "run", rank, kSize, 60);
        for (const std::string& round : {time + "-a", time + "-b"}) {
          const std::vector<std::string> expected{
              round + "0", round + "1", round + "2"};
          good += gather(round + std::to_string(rank)) == expected ? 1 : 0;
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(good, 2 * 2 * kSize);
}

TEST(TorchrunStore, WhoDoesNotComeIsNamed) {
  const auto store = make_store();
  std::thread other([&] {
    EXPECT_THROW(gather_at(store, "run", 2, 4, 0.5)(""), CommTimeout);
  });
  try {
    gather_at(store, "run", 0, 4, 0.5)("");
    ADD_FAILURE();
  } catch (const CommTimeout& error) {
    EXPECT_NE(
        std::string(error.what()).find("ranks 1, 3 did not come"),
        std::string::npos)
        << error.what();
    EXPECT_EQ(error.rank(), 1);
  }
  other.join();
}

TEST(TorchrunStore, AStoreThatDoesNotAnswerIsNamed) {
  Environment environment;
  environment.size = 2;
  environment.store_host = "127.0.0.1";
  environment.store_port = 1; // nobody's
  try {
    gather_at_torchrun(environment, 0.5);
    ADD_FAILURE();
  } catch (const CommError& error) {
    EXPECT_NE(
        std::string(error.what()).find("store at 127.0.0.1:1 (MASTER_ADDR"),
        std::string::npos)
        << error.what();
  }
}

} // namespace
} // namespace zero::comm
