// The command line of `zero`: what it understands and how it complains.
#include <gtest/gtest.h>
#include <zero/version.h>

#include <deque>

#include "launch/job.h"

namespace zero::test {
namespace {

struct Result {
  int code;
  std::string out;
  std::string err;
};

// Calls the program once for each list of arguments, all at the same time.
std::vector<Result> call_all(const std::vector<Strings>& calls) {
  std::deque<Job> jobs;
  for (const auto& arguments : calls) {
    Strings command{zero_program()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    jobs.emplace_back(command);
  }
  std::vector<Result> results;
  for (auto& job : jobs) {
    const int code = job.wait();
    results.push_back({code, job.out(), job.err()});
  }
  return results;
}

Result call(const Strings& arguments) {
  return call_all({arguments})[0];
}

struct Mistake {
  Strings arguments;
  Strings words; // that the complaint has
};

// Each gives one line that begins with the program's name.
void expect_complaints(const std::vector<Mistake>& mistakes) {
  std::vector<Strings> calls;
  for (const auto& mistake : mistakes) {
    calls.push_back(mistake.arguments);
  }
  const auto results = call_all(calls);
  for (size_t i = 0; i < mistakes.size(); ++i) {
    const auto& [code, out, err] = results[i];
    EXPECT_EQ(code, 2) << err;
    EXPECT_EQ(out, "");
    EXPECT_EQ(err.find("zero: "), 0) << err;
    EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
    for (const auto& word : mistakes[i].words) {
      EXPECT_NE(err.find(word), std::string::npos) << word << " in " << err;
    }
  }
}

TEST(Usage, TheVersionIsThatOfTheLibrary) {
  const Result result = call({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "zero " ZERO_VERSION "\n");
}

TEST(Usage, HelpListsTheCommandsAndHasAnExample) {
  const Result result = call({"--help"});
  EXPECT_EQ(result.code, 0);
  for (const std::string word :
       {"run ", "train ", "ckpt ", "doctor ", "Examples:"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << result.out;
  }
}

TEST(Usage, HelpOfRunSaysWhatHappensToCoresAndSignals) {
  const Result result = call({"run", "--help"});
  EXPECT_EQ(result.code, 0);
  for (const std::string word :
       {"Example:", "OMP_NUM_THREADS", "not pinned", "SIGTERM", "--grace"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << result.out;
  }
}

TEST(Usage, WithoutACommandTheHelpIsShown) {
  const Result result = call({});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("Examples:"), std::string::npos);
}

TEST(Usage, AMistypedCommandIsSuggested) {
  expect_complaints(
      {{{"rnu"}, {"\"rnu\"", "did you mean run?"}},
       {{"docter"}, {"\"docter\"", "did you mean doctor?"}},
       {{"bench", "adm"}, {"\"adm\"", "did you mean adam?", "zero bench"}}});
}

TEST(Usage, AnotherWordIsNotTakenForACommand) {
  const Result result = call({"elephant"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err.find("did you mean"), std::string::npos) << result.err;
}

TEST(Usage, UnknownOptionsAreNamed) {
  expect_complaints(
      {{{"--bogus"}, {"--bogus", "zero --help"}},
       {{"run", "--bogus", "-n", "2", "true"}, {"--bogus"}},
       {{"doctor", "--bogus"}, {"--bogus"}}});
}

TEST(Usage, WhatCannotBeMeasuredIsRefused) {
  expect_complaints(
      {{{"bench", "collectives", "--bytes", "abc"},
        {"multiple of 4", "\"abc\"", "zero bench collectives --help"}},
       {{"bench", "collectives", "--bytes", "8,3"}, {"multiple of 4", "\"3\""}},
       {{"bench", "collectives", "--seconds", "0"}, {"above 0", "\"0\""}}});
}

TEST(Usage, RunNeedsAProgramAndANumberOfRanks) {
  expect_complaints(
      {{{"run", "-n", "2"}, {"PROGRAM is required"}},
       {{"run", "-n", "2", "--"}, {"PROGRAM is required"}},
       {{"run", "-n", "2", ""}, {"no program"}},
       {{"run", "true"}, {"-n is required"}}});
}

TEST(Usage, NumbersOfRanksOutOfRangeAreRefused) {
  expect_complaints(
      {{{"run", "-n", "0", "true"}, {"0 ranks", "1 to 128"}},
       {{"run", "-n", "-1", "true"}, {"-1 ranks", "1 to 128"}},
       {{"run", "-n", "129", "true"}, {"129 ranks", "1 to 128"}},
       {{"run", "-n", "two", "true"}, {"two"}}});
}

TEST(Usage, OtherPoliciesThanStopAndShrinkAreRefusedByName) {
  expect_complaints(
      {{{"run", "-n", "2", "--on-loss", "restart", "true"},
        {"--on-loss", "\"restart\"", "expected stop, shrink or replace"}},
       {{"train", "gpt.json", "-n", "2", "--on-loss", "restart"},
        {"--on-loss", "\"restart\"", "expected stop, shrink or replace"}},
       {{"train", "gpt.json", "--on-loss", "shrink"}, {"requires -n"}}});
  EXPECT_EQ(call({"run", "--on-loss", "stop", "-n1", "true"}).code, 0);
  EXPECT_EQ(call({"run", "--on-loss=shrink", "-n1", "true"}).code, 0);
}

TEST(Usage, AGraceOutOfRangeIsRefused) {
  expect_complaints(
      {{{"run", "-n", "2", "--grace", "-1", "true"}, {"--grace"}},
       {{"run", "-n", "2", "--grace", "nan", "true"}, {"--grace"}},
       {{"run", "-n", "2", "--grace=inf", "true"}, {"--grace"}}});
}

TEST(Usage, TheProgramMayHaveTheNameOfACommandOrFollowTwoDashes) {
  // There is no such program, so the message shows what was understood.
  const Result named = call({"run", "-n", "1", "--grace=1", "doctor", "-x"});
  EXPECT_EQ(named.code, 127);
  EXPECT_NE(named.err.find("cannot run doctor:"), std::string::npos);
  const Result dashes = call({"run", "-n1", "--", "echo", "--", "-n"});
  EXPECT_EQ(dashes.code, 0);
  EXPECT_EQ(dashes.out, "[0] -- -n\n");
}

} // namespace
} // namespace zero::test
