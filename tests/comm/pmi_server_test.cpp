// What an MPI asks its launcher, answered within the process.
#include "comm/net/pmi_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace zero::comm {
namespace {

// MPI's side.
class PmiClient {
 public:
  PmiClient(int rank, int size, GatherBytes gather)
      : socket_(serve_pmi(rank, size, std::move(gather))) {}

  void send(const std::string& text) const {
    ASSERT_EQ(
        ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL),
        static_cast<ssize_t>(text.size()));
  }
  // Empty if the server has hung up.
  std::string line() const {
    std::string line;
    for (char byte = 0; ::recv(socket_.get(), &byte, 1, 0) == 1;) {
      if (byte == '\n') {
        return line;
      }
      line += byte;
    }
    return line;
  }
  std::string ask(const std::string& line_sent) const {
    send(line_sent + "\n");
    return line();
  }

 private:
  base::UniqueFd socket_;
};

const GatherBytes kAlone = [](const std::string& own) {
  return std::vector<std::string>{own};
};

TEST(PmiServer, SaysWhatMpiAsksAtFirst) {
  const PmiClient mpi(0, 3, kAlone);
  EXPECT_EQ(
      mpi.ask("cmd=init pmi_version=1 pmi_subversion=1"),
      "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
  EXPECT_EQ(
      mpi.ask("cmd=get_maxes"),
      "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
  EXPECT_EQ(mpi.ask("cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
  EXPECT_EQ(mpi.ask("cmd=get_universe_size"), "cmd=universe_size rc=0 size=3");
  EXPECT_EQ(mpi.ask("cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=zero");
  EXPECT_EQ(
      mpi.ask("cmd=get kvsname=zero key=PMI_process_mapping"),
      "cmd=get_result rc=0 msg=success value=(vector,(0,3,1))");
  EXPECT_EQ(mpi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
}

TEST(PmiServer, LinesMayComeInPartsAndTogether) {
  const PmiClient mpi(0, 1, kAlone);
  mpi.send("cmd=get_app");
  mpi.send("num\ncmd=finalize\n");
  EXPECT_EQ(mpi.line(), "cmd=appnum rc=0 appnum=0");
  EXPECT_EQ(mpi.line(), "cmd=finalize_ack rc=0");
}

TEST(PmiServer, WhatIsNotKnownIsAnsweredToo) {
  const PmiClient mpi(0, 1, kAlone);
  EXPECT_EQ(
      mpi.ask("cmd=get kvsname=zero key=nothing"),
      "cmd=get_result rc=-1 msg=key_not_found");
  EXPECT_EQ(
      mpi.ask("cmd=publish_name service=a port=b"),
      "cmd=publish_name_result rc=-1 msg=not_supported");
  EXPECT_EQ(mpi.ask("nonsense"), "cmd=_result rc=-1 msg=not_supported");
}

TEST(PmiServer, WhatARankPutsTheOthersGetAfterABarrier) {
  constexpr int kSize = 3;
  std::vector<std::string> given(kSize);
  std::barrier all_gave(kSize);
  std::vector<std::unique_ptr<PmiClient>> mpis;
  for (int rank = 0; rank < kSize; ++rank) {
    mpis.push_back(std::make_unique<PmiClient>(
        rank, kSize, [&, rank](const std::string& own) {
          given[static_cast<size_t>(rank)] = own;
          all_gave.arrive_and_wait();
          const auto all = given;
          all_gave.arrive_and_wait();
          return all;
        }));
  }
  for (const char* round : {"first", "second"}) {
    for (int rank = 0; rank < kSize; ++rank) {
      const auto& mpi = *mpis[static_cast<size_t>(rank)];
      // Values have what separates them from their names.
      EXPECT_EQ(
          mpi.ask(
              "cmd=put kvsname=zero key=card-" + std::to_string(rank) +
              " value=at=" + round + std::to_string(rank)),
          "cmd=put_result rc=0 msg=success");
      mpi.send("cmd=barrier_in\n");
    }
    for (const auto& mpi : mpis) {
      EXPECT_EQ(mpi->line(), "cmd=barrier_out rc=0");
      for (int rank = 0; rank < kSize; ++rank) {
        EXPECT_EQ(
            mpi->ask("cmd=get kvsname=zero key=card-" + std::to_string(rank)),
            std::string("cmd=get_result rc=0 msg=success value=at=") + round +
                std::to_string(rank));
      }
    }
  }
}

TEST(PmiServer, HangsUpWhenARankDoesNotCome) {
  const PmiClient mpi(0, 2, [](const std::string&) -> std::vector<std::string> {
    throw std::runtime_error("rank 1 did not come");
  });
  EXPECT_EQ(mpi.ask("cmd=barrier_in"), "");
}

TEST(PmiServer, EndsWhenMpiHangsUp) {
  auto token = std::make_shared<int>(0);
  {
    const PmiClient mpi(0, 1, [token](const std::string& own) {
      return std::vector<std::string>{own};
    });
    EXPECT_EQ(mpi.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
  }
  for (int i = 0; token.use_count() > 1 && i < 6000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(PmiVariables, AreAsBeforeAfterwards) {
  ::setenv("PMI_RANK", "7", 1);
  ::unsetenv("PMI_FD");
  ::setenv("PMIX_NAMESPACE", "slurm", 1);
  {
    const PmiVariables variables(1, 4, 12);
    EXPECT_STREQ(std::getenv("PMI_FD"), "12");
    EXPECT_STREQ(std::getenv("PMI_RANK"), "1");
    EXPECT_STREQ(std::getenv("PMI_SIZE"), "4");
    EXPECT_EQ(std::getenv("PMIX_NAMESPACE"), nullptr);
  }
  EXPECT_STREQ(std::getenv("PMI_RANK"), "7");
  EXPECT_EQ(std::getenv("PMI_FD"), nullptr);
  EXPECT_EQ(std::getenv("PMI_SIZE"), nullptr);
  EXPECT_STREQ(std::getenv("PMIX_NAMESPACE"), "slurm");
  ::unsetenv("PMI_RANK");
  ::unsetenv("PMIX_NAMESPACE");
}

} // namespace
} // namespace zero::comm
