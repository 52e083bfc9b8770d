// `zero run`: starts a program as the ranks of one job.
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/on_loss.h"
#include "comm/roster.h"
#include "launch/run.h"

namespace zero::cli {

namespace {

constexpr const char* kRunFooter = R"(Example:
  zero run -n 4 ./train --steps 100

Every rank finds in its environment what zero::init() needs: ZERO_RANK,
ZERO_SIZE and ZERO_ROSTER; one that takes a lost rank's place also ZERO_NEWCOMER.
Unless you set OMP_NUM_THREADS, each one gets an equal share of the cores in it, at
least 1. Ranks are not pinned to cores: the share is a number of threads, and the
system places them.

Each line a rank writes begins with its number; progress bars that redraw
themselves become a line per second. Rank 0 reads standard input, unless that is
a terminal; the others read nothing.

When a rank fails, the others get SIGTERM, and SIGKILL if they still run after
the grace time. The rank that failed first is reported last, with its last lines
of output. With --on-loss shrink the others go on, for a program that calls
World::shrink() when it catches PeerLost, or trains with an Engine: a line says
which rank was lost, and what that one had started is killed. With --on-loss
replace the program is also started again in its place, for programs that train
with an Engine, which lets it in; after three in a row that ended before they
took part or in less than 60 s, the others go on without it. When no rank is left
the job ends.

SIGINT, SIGTERM, SIGHUP and SIGQUIT end the job: every rank gets the signal, and
SIGKILL after the grace time; a second SIGINT or SIGTERM kills it at once.
SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on. However the job ends, no
process of it is left: zero run is two processes, and if one is killed the other
ends what is left.

Exit code: that of the rank that failed first, 128 + N if signal N ended it or
the job, 126 or 127 if PROGRAM cannot be executed, 2 if the command line is
wrong, 0 if all ranks ended with 0; with --on-loss shrink or replace, if at least
one did.)";

} // namespace

void add_run_command(
    CLI::App& app,
    const std::vector<std::string>& program,
    int& exit_code) {
  auto* command = app.add_subcommand("run", "Run a program as several ranks");
  auto options = std::make_shared<launch::RunOptions>();
  auto first_word = std::make_shared<std::string>();

  command
      ->add_option(
          "-n",
          options->num_ranks,
          c10::str("How many ranks, 1 to ", comm::kMaxRanks))
      ->type_name("N")
      ->required();
  add_on_loss(*command, options->on_loss);
  command
      ->add_option(
          "--grace",
          options->grace_seconds,
          "How long ranks that are told to end may take, 5 if not given")
      ->type_name("SECONDS");
  command
      ->add_option(
          "PROGRAM",
          *first_word,
          "The program; all that follows are its arguments")
      ->type_name("[ARGS...]")
      ->required();
  command->footer(kRunFooter);
  command->callback([&, options, first_word] {
    options->command = program;
    exit_code = launch::run(*options);
  });
}

} // namespace zero::cli
