// Who is in the job, and who is not any more.
#include "comm/roster.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zero/error.h>

#include <thread>

#include "base/shared_mapping.h"

namespace zero::comm {
namespace {

TEST(Roster, ARankComesAndGoes) {
  auto roster = Roster::create(3);
  EXPECT_EQ(roster.size(), 3);
  EXPECT_EQ(roster.state(1), MemberState::absent);
  EXPECT_FALSE(roster.gone(1));
  roster.join(1);
  EXPECT_EQ(roster.state(1), MemberState::alive);
  EXPECT_EQ(roster.pid(1), ::getpid());
  roster.leave(1);
  EXPECT_EQ(roster.state(1), MemberState::left);
  EXPECT_TRUE(roster.gone(1));
}

TEST(Roster, WhoLeftIsNotLostAfterwards) {
  auto roster = Roster::create(2);
  roster.join(0);
  roster.leave(0);
  roster.mark_lost(0);
  EXPECT_EQ(roster.state(0), MemberState::left);
}

TEST(Roster, NewcomersHaveIdsOfTheirOwn) {
  auto none = Roster::create(2);
  EXPECT_FALSE(none.takes_newcomers());
  EXPECT_EQ(none.add_newcomer(), std::nullopt);

  auto roster = Roster::create(2, 2);
  EXPECT_TRUE(roster.takes_newcomers());
  EXPECT_FALSE(roster.is_anybody_there());
  EXPECT_EQ(roster.add_newcomer(), 2);
  EXPECT_EQ(roster.size(), 2);
  EXPECT_EQ(roster.num_ids(), 3);
  EXPECT_TRUE(roster.is_joining(2));
  EXPECT_FALSE(roster.is_joining(1));
  roster.join(2);
  EXPECT_FALSE(roster.is_anybody_there());
  roster.has_joined(2);
  EXPECT_TRUE(roster.is_anybody_there());
  EXPECT_EQ(roster.add_newcomer(), 3);
  EXPECT_EQ(roster.add_newcomer(), std::nullopt);
  EXPECT_THROW(roster.join(4), ConfigError);
}

TEST(Roster, TellsWhereToMeet) {
  auto roster = Roster::create(1, 1);
  EXPECT_EQ(roster.where_to_meet().number, 0U);
  roster.say_where_to_meet({.pid = 4'000'000, .fd = 12});
  const auto first = roster.where_to_meet();
  EXPECT_EQ(first.segment.pid, 4'000'000);
  EXPECT_EQ(first.segment.fd, 12);
  roster.say_where_to_meet({.pid = 4'000'000, .fd = 12});
  EXPECT_NE(roster.where_to_meet().number, first.number);
}

TEST(Roster, WhoNeverCameCanBeLost) {
  auto roster = Roster::create(2);
  roster.mark_lost(1);
  EXPECT_EQ(roster.state(1), MemberState::lost);
  roster.join(1); // too late
  EXPECT_TRUE(roster.gone(1));
}

TEST(Roster, WhoWasLostFirstIsKnown) {
  auto roster = Roster::create(4);
  for (int id = 0; id < 4; ++id) {
    roster.join(id);
  }
  roster.mark_lost(3);
  roster.mark_lost(1);
  roster.mark_lost(3); // noticed by a second rank
  EXPECT_EQ(roster.loss(0), 0);
  EXPECT_LT(roster.loss(3), roster.loss(1));
}

TEST(Roster, AllHandlesSpeakOfTheSame) {
  auto roster = Roster::create(2);
  auto other = Roster::attach(base::SharedMapping::open(roster.address()));
  roster.beat(0);
  EXPECT_EQ(other.heartbeat(0), 1);
  other.note_victim(1);
  EXPECT_TRUE(roster.is_victim(1));
  EXPECT_FALSE(roster.is_victim(0));
}

TEST(Roster, OneRankIsTakenOnce) {
  for (int round = 0; round < 50; ++round) {
    auto roster = Roster::create(1);
    std::atomic<int> taken = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        try {
          Roster handle = roster;
          handle.join(0);
          ++taken;
        } catch (const ConfigError&) {
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(taken, 1);
  }
}

TEST(Roster, SomethingElseIsNoRoster) {
  auto mapping = base::SharedMapping::create("other", 8192);
  EXPECT_THROW(Roster::attach(mapping), IoError);
}

} // namespace
} // namespace zero::comm
