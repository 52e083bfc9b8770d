#include "report/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/unique_fd.h"

namespace zero::report {
namespace {

// A terminal of 60 columns, and what was written to it.
class PseudoTerminal {
 public:
  PseudoTerminal() : main_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    ::grantpt(main_.get());
    ::unlockpt(main_.get());
    std::array<char, 64> name{};
    ::ptsname_r(main_.get(), name.data(), name.size());
    other_ = base::UniqueFd(::open(name.data(), O_RDWR | O_NOCTTY));
    struct winsize size = {};
    size.ws_col = 60;
    ::ioctl(other_.get(), TIOCSWINSZ, &size);
  }
  int fd() const {
    return other_.get();
  }
  std::string written() const {
    std::array<char, 4096> text{};
    const ssize_t count = ::read(main_.get(), text.data(), text.size());
    return {text.data(), static_cast<size_t>(std::max<ssize_t>(0, count))};
  }

 private:
  base::UniqueFd main_;
  base::UniqueFd other_;
};

TEST(Progress, TheBarFitsAndSaysWhatIsLeft) {
  EXPECT_EQ(
      bar_text(4, 10, 6, 80),
      "[################------------------------]  40 %  step 4/10  9.0 s "
      "left");
  EXPECT_EQ(bar_text(0, 10, 0, 80).find("left"), std::string::npos);
  for (int64_t columns = 0; columns < 100; ++columns) {
    EXPECT_LE(
        bar_text(1000, 2000, 60, columns).size(),
        static_cast<size_t>(std::max<int64_t>(0, columns)));
  }
}

TEST(Progress, OnATerminalABarMovesBelowTheLines) {
  const PseudoTerminal terminal;
  ASSERT_EQ(::isatty(terminal.fd()), 1);
  {
    Progress progress(terminal.fd());
    progress.line("first");
    EXPECT_EQ(terminal.written(), "first\r\n");
    progress.bar(1, 2, 1);
    EXPECT_NE(terminal.written().find("50 %  step 1/2"), std::string::npos);
    progress.line("second");
    const std::string text = terminal.written();
    EXPECT_EQ(text.find("\r\x1b[Ksecond\r\n["), 0) << text;
  }
  EXPECT_EQ(terminal.written(), "\r\x1b[K");
}

TEST(Progress, ElsewhereThereAreLinesWithoutColours) {
  testing::internal::CaptureStdout();
  {
    Progress progress(-1);
    progress.line("step 1  loss " + progress.strong("2.5"));
    progress.bar(1, 2, 1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "step 1  loss 2.5\n");
}

} // namespace
} // namespace zero::report
