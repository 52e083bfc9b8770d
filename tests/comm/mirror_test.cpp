#include "comm/net/mirror.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "comm/thread_link.h"
#include "launch/job.h"

namespace zero::comm {
namespace {

using test::eventually;

constexpr uint32_t kNumber = 7;
constexpr size_t kPart = size_t{1} << 20;

// Two hosts, the first with two ranks and the second with three, as threads.
// Each host has the memory of all ranks.
class MirrorTest : public testing::Test {
 protected:
  static constexpr int kRanks = 5;
  inline static const std::vector<int> kAll{0, 1, 2, 3, 4};

  MirrorTest() : board_(kRanks), hosts_({0, 1, 0, 1, 1}) {
    for (int host = 0; host < 2; ++host) {
      memory_.push_back(base::SharedMapping::create(
          "test", kRanks * kPart, base::SharedMapping::Reserve::none));
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      mirrors_.push_back(std::make_unique<Mirror>(
          board_.link(rank),
          hosts_,
          Mirror::Losses{
              .lose =
                  [this](int lost) {
                    const std::lock_guard lock(mutex_);
                    lost_.insert(lost);
                  },
              .is_lost = [this](int other) { return gone_ == other; },
              .is_out_of_reach =
                  [this](int other) { return unheeded_ == other; }}));
    }
  }

  void add_all() {
    for (int rank = 0; rank < kRanks; ++rank) {
      mirrors_[static_cast<size_t>(rank)]->add(
          kNumber, memory_of(rank), kAll, [this] { ++arrivals_; });
    }
  }

  const std::shared_ptr<base::SharedMapping>& memory_of(int rank) const {
    return memory_[static_cast<size_t>(hosts_.host_of(rank))];
  }
  // What rank `of` has written, as it is seen where `where` is.
  std::byte* part(int of, int where) const {
    return memory_of(where)->data() + static_cast<size_t>(of) * kPart;
  }
  std::atomic<uint64_t>& counter(int of, int where) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(part(of, where));
  }
  bool is_lost(int rank) {
    const std::lock_guard lock(mutex_);
    return lost_.contains(rank);
  }

  test::Switchboard board_;
  Hosts hosts_;
  std::vector<std::shared_ptr<base::SharedMapping>> memory_;
  std::mutex mutex_;
  std::set<int> lost_;
  std::atomic<int> arrivals_ = 0;
  std::atomic<int> gone_ = -1;
  std::atomic<int> unheeded_ = -1;
  std::vector<std::unique_ptr<Mirror>> mirrors_; // last: it uses the above
};

TEST(Hosts, KnowWhoStandsForWhom) {
  const Hosts hosts({0, 1, 0, 1, 1});
  EXPECT_EQ(hosts.num_hosts(), 2);
  EXPECT_EQ(hosts.ranks_of(1), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(hosts.local_rank(4), 2);
  EXPECT_EQ(hosts.counterpart(0, 1), 1);
  EXPECT_EQ(hosts.counterpart(2, 1), 3);
  EXPECT_EQ(hosts.counterpart(4, 0), 0);
  EXPECT_EQ(hosts.counterpart(3, 1), 3);
}

// Whoever sees a counter sees what was stored before it, whatever its size.
TEST_F(MirrorTest, StoresArriveInTheirOrder) {
  add_all();
  constexpr uint64_t kRounds = 200;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 random(static_cast<unsigned>(rank));
      const int other = 1 - hosts_.host_of(rank);
      const int there = hosts_.counterpart(rank, other);
      auto& mirror = *mirrors_[static_cast<size_t>(rank)];
      for (uint64_t round = 1; round <= kRounds; ++round) {
        // The sizes are known to whoever reads.
        const size_t bytes = 1 + random() % (round % 3 == 0 ? 90'000 : 300);
        std::byte* data = part(rank, rank) + 64;
        std::memset(data, static_cast<int>(round), bytes);
        mirror.store(kNumber, data, bytes, there);
        counter(rank, rank) = round;
        mirror.store_word(kNumber, counter(rank, rank), there);
        // Both ends of another host's data are there before its counter is.
        const int reader = hosts_.ranks_of(other).front();
        ASSERT_TRUE(
            eventually([&] { return counter(rank, reader).load() == round; }));
        const std::byte* seen = part(rank, reader) + 64;
        ASSERT_EQ(seen[0], static_cast<std::byte>(round));
        ASSERT_EQ(seen[bytes - 1], static_cast<std::byte>(round));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_GE(arrivals_, static_cast<int>(kRounds) * kRanks);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(MirrorTest, WhatComesBeforeTheMemoryIsKept) {
  mirrors_[0]->add(kNumber, memory_of(0), kAll, [] {});
  mirrors_[0]->store(kNumber, part(0, 0) + 64, 50'000, 1);
  counter(0, 0) = 9;
  mirrors_[0]->store_word(kNumber, counter(0, 0), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counter(0, 1), 0);
  mirrors_[1]->add(kNumber, memory_of(1), kAll, [] {});
  EXPECT_TRUE(eventually([&] { return counter(0, 1) == 9; }));
}

// More than may be under way waits for memory that is not there yet.
TEST_F(MirrorTest, WordsThatAnnounceNothingOvertake) {
  constexpr uint32_t kLater = kNumber + 1;
  add_all();
  mirrors_[0]->add(kLater, memory_of(0), kAll, [] {});
  std::memset(part(2, 0), 3, kPart);
  for (int i = 0; i < 3; ++i) {
    mirrors_[0]->store(kLater, part(2, 0), kPart, 1);
  }
  counter(3, 0) = 1;
  mirrors_[0]->store_word(kLater, counter(3, 0), 1);
  counter(0, 0) = 9;
  mirrors_[0]->store_word(kNumber, counter(0, 0), 1, Order::overtaking);
  std::vector<std::byte> copy(100);
  std::atomic<bool> is_read = false;
  mirrors_[0]->read(
      kNumber, kPart, copy.data(), 100, 1, [&](bool) { is_read = true; });
  EXPECT_TRUE(eventually([&] { return counter(0, 1) == 9 && is_read; }));
  EXPECT_EQ(counter(3, 1), 0);
  mirrors_[1]->add(kLater, memory_of(1), kAll, [] {});
  EXPECT_TRUE(eventually([&] { return counter(3, 1) == 1; }));
  EXPECT_EQ(part(2, 1)[kPart - 1], std::byte{3});
}

TEST_F(MirrorTest, WhatComesFromOutOfReachIsNotHeeded) {
  add_all();
  unheeded_ = 0;
  EXPECT_TRUE(eventually([&] { return is_lost(0); }));
  counter(0, 0) = 9;
  mirrors_[0]->store_word(kNumber, counter(0, 0), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(counter(0, 1), 0);
}

TEST_F(MirrorTest, ARankOutOfReachIsToldOf) {
  add_all();
  board_.cut(1);
  EXPECT_TRUE(eventually([&] { return is_lost(1); }));
  // The others go on.
  counter(2, 2) = 5;
  mirrors_[2]->store_word(kNumber, counter(2, 2), 3);
  EXPECT_TRUE(eventually([&] { return counter(2, 3) == 5; }));
  EXPECT_FALSE(is_lost(3));
}

// Their owners do nothing for it, and have perhaps let go of it themselves.
TEST_F(MirrorTest, WhatIsNotMirroredIsRead) {
  add_all();
  constexpr size_t kBytes = 300'000;
  std::vector<std::vector<std::byte>> copies(kRanks);
  std::atomic<int> num_read = 0;
  for (const int owner : {1, 3, 4}) {
    std::memset(part(owner, owner), owner, kBytes);
    auto& copy = copies[static_cast<size_t>(owner)];
    copy.resize(kBytes);
    mirrors_[static_cast<size_t>(owner)]->remove(kNumber);
  }
  memory_[1].reset(); // of their host
  for (const int owner : {1, 3, 4}) {
    auto& copy = copies[static_cast<size_t>(owner)];
    for (size_t begin = 0; begin < kBytes; begin += kBytes / 3) {
      mirrors_[2]->read(
          kNumber,
          static_cast<size_t>(owner) * kPart + begin,
          copy.data() + begin,
          kBytes / 3,
          owner,
          [&](bool is_there) { num_read += is_there ? 1 : 0; });
    }
  }
  ASSERT_TRUE(eventually([&] { return num_read == 9; }));
  for (const int owner : {1, 3, 4}) {
    const auto& copy = copies[static_cast<size_t>(owner)];
    const auto value = static_cast<std::byte>(owner);
    EXPECT_EQ(std::count(copy.begin(), copy.end(), value), kBytes);
  }
}

// Also if the first one has to wait for memory that is not there yet.
TEST_F(MirrorTest, ReadsAreAnsweredInTheirOrder) {
  add_all();
  constexpr uint32_t kLater = kNumber + 1;
  const auto later_there = base::SharedMapping::create("test", 4096);
  const auto later_here = base::SharedMapping::create("test", 4096);
  mirrors_[0]->add(kLater, later_here, kAll, [] {});
  std::memset(later_there->data(), 1, 1000);
  std::memset(part(1, 1), 2, 1000);
  std::vector<std::byte> first(1000);
  std::vector<std::byte> second(1000);
  std::atomic<int> num_read = 0;
  const auto count = [&](bool is_there) { num_read += is_there ? 1 : 0; };
  mirrors_[0]->read(kLater, 0, first.data(), 1000, 1, count);
  mirrors_[0]->read(kNumber, 1 * kPart, second.data(), 1000, 1, count);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  mirrors_[1]->add(kLater, later_there, kAll, [] {});
  ASSERT_TRUE(eventually([&] { return num_read == 2; }));
  EXPECT_EQ(std::count(first.begin(), first.end(), std::byte{1}), 1000);
  EXPECT_EQ(std::count(second.begin(), second.end(), std::byte{2}), 1000);
}

TEST_F(MirrorTest, MemoryLastsUntilNobodyNeedsIt) {
  add_all();
  const std::weak_ptr<base::SharedMapping> watched = memory_[0];
  memory_.clear();
  for (auto& mirror : mirrors_) {
    EXPECT_FALSE(watched.expired());
    mirror->remove(kNumber);
  }
  EXPECT_TRUE(eventually([&] { return watched.expired(); }));
}

TEST_F(MirrorTest, AReadOfWhoIsLostFails) {
  add_all();
  std::vector<std::byte> copy(100);
  std::atomic<int> num_failed = 0;
  const auto failed = [&](bool is_there) { num_failed += is_there ? 0 : 1; };
  board_.cut(1);
  mirrors_[0]->read(kNumber, kPart, copy.data(), 100, 1, failed);
  EXPECT_TRUE(eventually([&] { return num_failed == 1; }));
  // Of a rank that is out of reach without the link knowing.
  mirrors_[3].reset();
  gone_ = 3;
  mirrors_[0]->read(kNumber, 3 * kPart, copy.data(), 100, 3, failed);
  EXPECT_TRUE(eventually([&] { return num_failed == 2; }));
  mirrors_[0]->stop();
  mirrors_[0]->read(kNumber, 4 * kPart, copy.data(), 100, 4, failed);
  EXPECT_EQ(num_failed, 3);
}

TEST_F(MirrorTest, WhatWasStoredIsSentBeforeTheEnd) {
  add_all();
  for (uint64_t value = 1; value <= 1000; ++value) {
    counter(0, 0) = value;
    mirrors_[0]->store_word(kNumber, counter(0, 0), 1);
  }
  mirrors_[0].reset();
  EXPECT_TRUE(eventually([&] { return counter(0, 1) == 1000; }));
}

// Whatever a rank sends, nothing is written outside the memory.
TEST_F(MirrorTest, WhatIsNoMessageLosesItsSender) {
  add_all();
  mirrors_[0].reset(); // its place is taken by one who sends nonsense
  const auto link = board_.link(0);
  std::mt19937 random(5);
  std::vector<uint32_t> words(300);
  for (auto& word : words) {
    word = static_cast<uint32_t>(random() % 3 == 0 ? random() : random() % 3);
  }
  const auto sending = link->send(1, /*tag=*/1, words.data(), 1111);
  EXPECT_TRUE(eventually([&] { return is_lost(0); }));
  EXPECT_FALSE(is_lost(3));
}

} // namespace
} // namespace zero::comm
