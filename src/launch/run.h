// Defines run(): starts a program as the ranks of one job on this machine, and
// ends when all of them have. Called by `zero run` and by commands that are
// jobs themselves.
//
//   RunOptions options;
//   options.num_ranks = 4;
//   options.command = {"./train", "--steps", "100"};
//   return launch::run(options);
//
// Call it from the main thread, and while no other thread runs: it forks, and
// the job ends with the thread that called it.
#pragma once

#include <string>
#include <vector>

namespace zero::launch {

// What becomes of the other ranks when one fails.
enum class OnLoss {
  stop, // they are ended
  shrink, // they go on; the program calls World::shrink(), or fails by itself
  replace, // they go on, and a new process is started, which their Engine lets
           // in
};

struct RunOptions {
  int num_ranks = 1;
  std::vector<std::string> command; // the program and its arguments
  OnLoss on_loss = OnLoss::stop;

  // Ranks that are told to end are killed if they still run after this.
  double grace_seconds = 5;

  // The ranks are libzero's own program: their lines are not labelled, and one
  // that ends by itself has said why.
  bool own_program = false;
  // Whether ranks go on when nobody reads what they write any more.
  bool outlives_reader = false;
};

// Returns the exit code of the job: 0 if every rank ended with 0, and unless
// OnLoss::stop if one did; that of the rank that failed first, 128 + N if
// signal N killed it or ended the job, 126 or 127 if the program cannot be
// executed. However it ends, also by kill -9, no process of the job is left.
// Throws: ConfigError if the options are wrong; IoError.
int run(const RunOptions& options);

} // namespace zero::launch
