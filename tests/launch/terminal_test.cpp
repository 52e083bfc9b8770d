// A job that was started from a terminal.
#include <gtest/gtest.h>
#include <pty.h>
#include <utmp.h>

#include <array>

#include "launch/job.h"

namespace zero::test {
namespace {

// A job whose standard streams are a terminal of its own.
class TerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    int user = -1;
    int program = -1;
    if (::openpty(&user, &program, nullptr, nullptr, nullptr) != 0) {
      GTEST_SKIP() << "this machine gives no terminals";
    }
    // A terminal is closed when nobody holds the user's end.
    ::fcntl(user, F_SETFD, FD_CLOEXEC);
    user_ = user;
    program_ = program;
    options_.unset = {"NO_COLOR"};
    options_.prepare = [program] { ::login_tty(program); };
  }
  void TearDown() override {
    ::close(user_);
    ::close(program_);
  }

  void type(const std::string& keys) {
    ASSERT_EQ(::write(user_, keys.data(), keys.size()), keys.size());
  }

  bool shows(const std::string& text) {
    ::fcntl(user_, F_SETFL, O_NONBLOCK);
    return eventually([&] {
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(user_, buffer.data(), buffer.size());
      if (got > 0) {
        screen_.append(buffer.data(), static_cast<size_t>(got));
      }
      return screen_.find(text) != std::string::npos;
    });
  }

  int user_ = -1;
  int program_ = -1;
  JobOptions options_;
  std::string screen_;
};

TEST_F(TerminalTest, LabelsAreColoured) {
  Job job(zero_run(2, shell("echo hello")), options_);
  EXPECT_TRUE(shows("\033[36m[0]\033[0m hello\r\n")) << screen_;
  EXPECT_TRUE(shows("\033[32m[1]\033[0m hello\r\n")) << screen_;
  EXPECT_EQ(job.wait(), 0);
}

TEST_F(TerminalTest, NoColourIsRespected) {
  options_.set = {"NO_COLOR=1"};
  options_.unset = {};
  Job job(zero_run(1, shell("echo hello")), options_);
  EXPECT_TRUE(shows("[0] hello\r\n")) << screen_;
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(screen_.find('\033'), std::string::npos) << screen_;
}

TEST_F(TerminalTest, RanksDoNotReadTheTerminal) {
  Job job(zero_run(1, shell("cat; echo end")), options_);
  EXPECT_TRUE(shows("end\r\n")) << screen_;
  EXPECT_EQ(job.wait(), 0);
}

TEST_F(TerminalTest, CtrlCReachesEveryRankOnce) {
  Job job(
      zero_run(
          2,
          shell("trap 'echo got it; sleep 0.3; exit 0' INT; echo ready;"
                "while true; do sleep 0.02; done")),
      options_);
  EXPECT_TRUE(shows("[0]\033[0m ready")) << screen_;
  EXPECT_TRUE(shows("[1]\033[0m ready")) << screen_;
  type("\003");
  EXPECT_TRUE(shows("ended by SIGINT")) << screen_;
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  size_t count = 0;
  for (size_t at = 0; (at = screen_.find("got it", at)) != std::string::npos;
       ++at) {
    ++count;
  }
  EXPECT_EQ(count, 2) << screen_;
  EXPECT_TRUE(job.nothing_left());
}

TEST_F(TerminalTest, ClosingTheTerminalEndsTheJob) {
  Job job(
      zero_run(
          2, shell("trap '' HUP; echo ready; sleep 1000"), {"--grace", "0.2"}),
      options_);
  EXPECT_TRUE(shows("[0]\033[0m ready")) << screen_;
  EXPECT_TRUE(shows("[1]\033[0m ready")) << screen_;
  ::close(program_);
  ::close(user_);
  user_ = program_ = ::open("/dev/null", O_RDWR);
  EXPECT_EQ(job.wait(), 128 + SIGHUP);
  EXPECT_TRUE(job.nothing_left());
}

} // namespace
} // namespace zero::test
