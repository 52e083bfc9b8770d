#include "launch/first_cause.h"

#include <sys/wait.h>

#include <csignal>
#include <sstream>

#include "launch/signals.h"

namespace zero::launch {

namespace {

// The beginning of a line.
std::string how_it_ended(const RankEnd& end) {
  std::ostringstream text;
  text << "zero: rank " << end.rank << " (process " << end.pid << ") ";
  if (!WIFSIGNALED(end.status)) {
    text << "failed with exit code " << WEXITSTATUS(end.status);
    return text.str();
  }
  const int signal = WTERMSIG(end.status);
  text << "was killed by " << signal_name(signal);
  if (signal == SIGKILL && end.silent) {
    text << " (by the other ranks: it had given no sign of life; perhaps it "
            "was stopped, or its machine was overloaded)";
  } else if (signal == SIGKILL) {
    text << " (" << end.kill_explanation << ")";
  } else if (WCOREDUMP(end.status)) {
    text << " (core dumped)";
  }
  return text.str();
}

} // namespace

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void FirstCause::add(const RankEnd& end) {
  // Ranks that end at the same moment are noticed in any order, but only the
  // culprit failed without having seen another one go.
  if (end.failed() && (!suspected() || (first_->victim && !end.victim))) {
    first_ = end;
  }
  if (!end.failed() && !deserter_) {
    deserter_ = end.rank;
  }
}

std::string last_lines_report(
    int rank,
    const std::deque<std::string>& last_lines) {
  std::ostringstream report;
  if (last_lines.empty()) {
    report << "zero: rank " << rank << " wrote nothing\n";
  } else {
    report << "zero: the last lines of rank " << rank << ":\n";
    for (const auto& line : last_lines) {
      report << "  " << line << '\n';
    }
  }
  return report.str();
}

std::string failure_report(const FirstCause& cause, OnLoss on_loss) {
  const RankEnd& end = cause.get();
  std::ostringstream report;
  report << how_it_ended(end);
  if (end.victim && cause.deserter()) {
    report << ", because rank " << *cause.deserter()
           << " had ended with exit code 0 before the others were done";
  } else if (end.victim) {
    report << ", because another rank was gone";
  }
  report
      << (on_loss == OnLoss::stop ? "; all ranks have been ended\n"
                                  : "; no rank is left\n");
  return report.str();
}

std::string newcomer_report(const RankEnd& end) {
  return how_it_ended(end) + " before it took part; the others go on\n";
}

std::string loss_report(const RankEnd& end, int num_left, int num_ranks) {
  std::ostringstream report;
  report << how_it_ended(end);
  if (end.victim) {
    // Not "because": it may have gone on without that rank for hours.
    report << ", after another rank was gone";
  }
  if (num_left == 0) {
    report << "; no rank is left\n";
  } else {
    report << "; the others go on, " << num_left << " of " << num_ranks
           << " ranks " << (num_left == 1 ? "is" : "are") << " left\n";
  }
  return report.str();
}

} // namespace zero::launch
