// Ranks that meet without a launcher of ours, as under torchrun.
#include "comm/rendezvous.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero/zero.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace zero::comm {
namespace {

// What no other run of this test has.
std::string unique_name(const char* test) {
  return std::string("zero-test-") + test + "-" + std::to_string(::getpid());
}

TEST(Rendezvous, EverybodyGetsTheRosterOfRankZero) {
  const std::string name = unique_name("meet");
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Roster roster = meet(name, rank, 4, 60);
      roster.join(rank);
      good += roster.size() == 4 ? 1 : 0;
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 4);
}

TEST(Rendezvous, RankZeroSaysWhoDidNotCome) {
  try {
    meet(unique_name("alone"), 0, 3, 0.3);
    ADD_FAILURE();
  } catch (const CommTimeout& error) {
    EXPECT_NE(
        std::string(error.what()).find("ranks 1, 2 did not come"),
        std::string::npos)
        << error.what();
  }
}

TEST(Rendezvous, OthersSayThatRankZeroDidNotCome) {
  EXPECT_THROW(meet(unique_name("nobody"), 1, 2, 0.3), CommTimeout);
}

TEST(Rendezvous, WhoHasMetRankZeroNamesTheOneThatIsMissing) {
  const std::string name = unique_name("third");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        meet(name, rank, 3, 1);
        ADD_FAILURE();
      } catch (const CommTimeout& error) {
        EXPECT_EQ(error.rank(), 2) << error.what();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

// Starts a process that meets the others and never ends by itself.
pid_t start_visitor(const std::string& name, int rank, int size) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      meet(name, rank, size, 60);
    } catch (const std::exception&) {
    }
    ::pause();
  }
  return pid;
}

// A rank meets one that is killed while a third is awaited.
void expect_lost(const std::string& name, int victim, int survivor) {
  const pid_t pid = start_visitor(name, victim, 3);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  });
  try {
    meet(name, survivor, 3, 60);
    ADD_FAILURE();
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank(), victim) << lost.what();
  }
  killer.join();
}

TEST(Rendezvous, ARankThatIsKilledWhileOthersAreAwaitedIsLost) {
  expect_lost(unique_name("killed"), 1, 0);
  expect_lost(unique_name("host"), 0, 1);
}

TEST(Rendezvous, RanksThatDisagreeOnTheirNumberAllHearOfIt) {
  const std::string name = unique_name("number");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        meet(name, rank, rank == 0 ? 4 : 3, 60);
        ADD_FAILURE();
      } catch (const ConfigError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("WORLD_SIZE"), std::string::npos) << text;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(Rendezvous, ARankThatIsThereTwiceIsRefused) {
  const std::string name = unique_name("twice");
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 1}) {
    threads.emplace_back([&, rank] {
      try {
        meet(name, rank, 3, 3);
        ADD_FAILURE();
      } catch (const ConfigError&) {
        ++refused;
      } catch (const CommTimeout& error) {
        EXPECT_EQ(error.rank(), 2) << error.what();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(refused, 1);
}

TEST(Rendezvous, ATakenMeetingPointIsNamed) {
  const std::string name = unique_name("taken");
  std::thread first([&] { EXPECT_THROW(meet(name, 0, 2, 2), CommTimeout); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_THROW(meet(name, 0, 2, 1), IoError);
  first.join();
}

TEST(Rendezvous, InitWorksWithTorchrunsVariables) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto set = [](const char* name, const std::string& value) {
        ::setenv(name, value.c_str(), 1);
      };
      set("RANK", std::to_string(rank));
      set("LOCAL_RANK", std::to_string(rank));
      set("WORLD_SIZE", "3");
      set("LOCAL_WORLD_SIZE", "3");
      set("MASTER_PORT", "0");
      set("TORCHELASTIC_RUN_ID", "zero-test-" + std::to_string(::getppid()));
      bool ok = false;
      try {
        const World world = init();
        const World again = init(); // the same one
        at::Tensor sum = at::ones({2});
        world.communicator().all_reduce(sum).wait();
        ok = again.rank() == rank && again.size() == 3 &&
            sum[0].item<float>() == 3;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(ok ? 0 : 1);
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

} // namespace
} // namespace zero::comm
