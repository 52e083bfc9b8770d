// The protocol of buckets with tiny buckets, few slots, and ranks that produce
// gradients in different orders, miss some, and make different numbers of
// passes: nobody hangs, and every sum has the bits of a sum in rank order.
#include "reduce/exchange.h"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "comm/ranks.h"
#include "comm/window_state.h"

namespace zero::test {
namespace {

using reduce::Contribution;
using reduce::Exchange;

constexpr int kBuckets = 7;
constexpr int kElements = 5;
constexpr int64_t kSlotBytes = kElements * sizeof(float);
using Data = std::array<float, kElements>;

// Numbers whose sum depends on the order in which they are added.
Data data_of(uint64_t seed, int rank, int64_t pass, int bucket) {
  std::seed_seq sequence{
      seed,
      static_cast<uint64_t>(rank),
      static_cast<uint64_t>(pass),
      static_cast<uint64_t>(bucket)};
  std::mt19937 random(sequence);
  Data data{};
  for (auto& value : data) {
    const float sign = random() % 2 == 0 ? 1 : -1;
    value = sign *
        std::ldexp(
                1.0F + static_cast<float>(random() % 1000) / 1000,
                static_cast<int>(random() % 40));
  }
  return data;
}

// One rank of the model.
class ModelRank : public reduce::ExchangeHandler {
 public:
  ModelRank(const World& world, uint64_t seed, int num_slots)
      : seed_(seed),
        rank_(world.rank()),
        size_(world.size()),
        group_(comm::state_of(world)->current()),
        watch_(group_),
        control_(comm::make_window(group_, Exchange::control_bytes(kBuckets))),
        slots_(comm::make_window(
            group_,
            Exchange::slots_bytes(num_slots, kSlotBytes))),
        exchange_(options(num_slots), watch_, *this),
        random_(seed * 31 + static_cast<uint64_t>(rank_)) {}

  // Buckets of one pass, in this rank's own order; some are missing.
  std::vector<int> plan_pass() {
    std::vector<int> order;
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      if (random_() % 5 != 0) {
        order.push_back(bucket);
      }
    }
    if (random_() % 3 != 0) {
      std::shuffle(order.begin(), order.end(), random_);
    }
    return order;
  }

  void run_pass() {
    exchange_.begin_pass();
    std::map<int, bool> kept;
    for (const int bucket : plan_pass()) {
      dawdle();
      ++num_produced_;
      kept[bucket] = !exchange_.publish(bucket);
      num_spilled += kept[bucket] ? 1 : 0;
      exchange_.progress();
    }
    exchange_.finish_pass([&](int bucket) { return kept.contains(bucket); });
  }

  // All buckets in the usual order.
  void run_in_order(bool slowly) {
    exchange_.begin_pass();
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      if (slowly) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      num_spilled += exchange_.publish(bucket) ? 0 : 1;
      exchange_.progress();
    }
    exchange_.finish_pass([](int) { return true; });
  }

  void close_round() {
    exchange_.close_round();
  }

  void fill(int bucket, std::byte* to) override {
    const Data data = data_of(seed_, rank_, exchange_.pass(), bucket);
    std::memcpy(to, data.data(), sizeof(data));
  }

  void reduce(int bucket, const std::vector<Contribution>& contributions)
      override {
    Data expected{};
    Data sum{};
    for (int rank = 0; rank < size_; ++rank) {
      const auto& given = contributions[static_cast<size_t>(rank)];
      if (given.kind == Contribution::Kind::nothing) {
        continue;
      }
      Data data{};
      std::memcpy(data.data(), given.data, sizeof(data));
      const Data own = data_of(seed_, rank, exchange_.pass(), bucket);
      for (size_t i = 0; i < data.size(); ++i) {
        sum[i] += data[i];
        expected[i] += own[i];
      }
      ++num_contributions;
    }
    if (sum != expected) {
      throw std::runtime_error(c10::str("wrong sum of bucket ", bucket));
    }
  }

  void join(int, const std::vector<Contribution>&, int) override {
    throw std::runtime_error("there is one host");
  }

  int num_produced() const {
    return num_produced_;
  }
  std::mt19937_64& random() {
    return random_;
  }

  int num_contributions = 0;
  int num_spilled = 0;

 private:
  Exchange::Options options(int num_slots) {
    Exchange::Options options{
        .rank = rank_,
        .size = size_,
        .num_buckets = kBuckets,
        .num_slots = num_slots,
        .slot_bytes = kSlotBytes,
        .control = {},
        .slots = {}};
    for (int rank = 0; rank < size_; ++rank) {
      options.control.push_back(control_->data(rank));
      options.slots.push_back(slots_->data(rank));
    }
    return options;
  }

  void dawdle() {
    switch (random_() % 4) {
      case 0:
        std::this_thread::yield();
        break;
      case 1:
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 50));
        break;
      default:
        break;
    }
  }

  uint64_t seed_;
  int rank_;
  int size_;
  std::shared_ptr<comm::Group> group_;
  comm::Watch watch_;
  std::shared_ptr<comm::WindowState> control_;
  std::shared_ptr<comm::WindowState> slots_;
  Exchange exchange_;
  std::mt19937_64 random_;
  int num_produced_ = 0;
};

void run_model(int num_ranks, int num_slots, uint64_t seed, int num_rounds) {
  std::vector<int> produced(static_cast<size_t>(num_ranks));
  std::vector<int> reduced(static_cast<size_t>(num_ranks));
  run_threads(
      num_ranks,
      [&](World world) {
        auto comm = world.communicator();
        ModelRank rank(world, seed, num_slots);
        for (int round = 0; round < num_rounds; ++round) {
          const int passes = static_cast<int>(rank.random()() % 3);
          for (int pass = 0; pass < passes; ++pass) {
            rank.run_pass();
          }
          rank.close_round();
          comm.barrier();
        }
        const auto id = static_cast<size_t>(comm.rank());
        produced[id] = rank.num_produced();
        reduced[id] = rank.num_contributions;
      },
      {.timeout_seconds = {}, .progress_timeout_seconds = 120, .verify = {}});
  // Every rank has seen everything that was produced, once.
  const int total = std::accumulate(produced.begin(), produced.end(), 0);
  for (const int count : reduced) {
    EXPECT_EQ(count, total) << "seed " << seed;
  }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSeeds = 30;
#else
constexpr int kSeeds = 300;
#endif

TEST(Exchange, RanksThatDifferNeverHangAndSumInRankOrder) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run_model(3, 1 + static_cast<int>(seed % 3), seed, 6);
  }
}

TEST(Exchange, OneRankIsEnough) {
  run_model(1, 1, 0, 5);
}

TEST(Exchange, FiveRanksOneSlot) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    run_model(5, 1, seed, 4);
  }
}

// Ranks that go the same way never spill, however much slower one of them is.
TEST(Exchange, TheSameOrderNeedsNoMoreThanItsSlots) {
  run_threads(3, [&](World world) {
    ModelRank rank(world, 5, 2);
    auto comm = world.communicator();
    for (int round = 0; round < 20; ++round) {
      rank.run_in_order(comm.rank() == 1);
      rank.close_round();
      comm.barrier();
    }
    EXPECT_EQ(rank.num_spilled, 0);
  });
}

} // namespace
} // namespace zero::test
