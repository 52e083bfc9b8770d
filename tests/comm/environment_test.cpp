// How init() finds out how it was started, and refuses what cannot be right.
#include "comm/environment.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include <map>

namespace zero::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Environment read(const Variables& variables) {
  return read_environment(lookup(variables));
}

void expect_refused(const Variables& variables, const std::string& text) {
  try {
    read(variables);
    ADD_FAILURE() << "no error, expected: " << text;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << error.what();
  }
}

const Variables kTorchrun{
    {"RANK", "1"},
    {"WORLD_SIZE", "2"},
    {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"MASTER_ADDR", "127.0.0.1"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RUN_ID", "run"},
    {"TORCHELASTIC_RESTART_COUNT", "3"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    variables[name] = value;
  }
  return variables;
}

TEST(Environment, NothingIsAWorldOfOne) {
  const auto environment = read({});
  EXPECT_EQ(environment.launcher, Launcher::none);
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.size, 1);
}

TEST(Environment, ZeroRunTellsWhereTheRosterIs) {
  const auto environment =
      read({{"ZERO_RANK", "2"}, {"ZERO_SIZE", "4"}, {"ZERO_ROSTER", "17:5"}});
  EXPECT_EQ(environment.launcher, Launcher::zero_run);
  EXPECT_EQ(environment.rank, 2);
  EXPECT_EQ(environment.size, 4);
  EXPECT_EQ(environment.roster.pid, 17);
  EXPECT_EQ(environment.roster.fd, 5);
}

TEST(Environment, ZeroRunTellsWhoTakesAPlace) {
  const Variables variables{
      {"ZERO_RANK", "2"}, {"ZERO_SIZE", "4"}, {"ZERO_ROSTER", "17:5"}};
  EXPECT_EQ(read(variables).newcomer, std::nullopt);
  EXPECT_EQ(read(with(variables, {{"ZERO_NEWCOMER", "4"}})).newcomer, 4);
}

TEST(Environment, ZeroRunWinsOverTorchrun) {
  EXPECT_EQ(
      read(
          with(
              kTorchrun,
              {{"ZERO_RANK", "0"}, {"ZERO_SIZE", "1"}, {"ZERO_ROSTER", "1:1"}}))
          .launcher,
      Launcher::zero_run);
}

TEST(Environment, TorchrunOnOneMachine) {
  const auto environment = read(kTorchrun);
  EXPECT_EQ(environment.launcher, Launcher::torchrun);
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.size, 2);
  // A restart meets elsewhere than the run that failed.
  EXPECT_NE(
      environment.meeting,
      read(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "4"}})).meeting);
  EXPECT_NE(
      environment.meeting,
      read(with(kTorchrun, {{"MASTER_PORT", "29501"}})).meeting);
}

// As torchrun --nnodes=2 --nproc-per-node=2 sets them.
const Variables kTorchrunHosts{
    {"RANK", "3"},
    {"WORLD_SIZE", "4"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"MASTER_ADDR", "10.0.0.1"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RUN_ID", "none"},
    {"TORCHELASTIC_RESTART_COUNT", "0"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

TEST(Environment, TorchrunOfSeveralMachinesMeetsAtItsStore) {
  const auto environment = read(kTorchrunHosts);
  EXPECT_EQ(environment.launcher, Launcher::torchrun_hosts);
  EXPECT_EQ(environment.rank, 3);
  EXPECT_EQ(environment.size, 4);
  EXPECT_EQ(environment.mpi, "mpich");
  EXPECT_EQ(environment.store_host, "10.0.0.1");
  EXPECT_EQ(environment.store_port, 29500);
  EXPECT_NE(
      environment.meeting,
      read(with(kTorchrunHosts, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))
          .meeting);
  // mpirun or srun may have started torchrun itself.
  EXPECT_EQ(
      read(with(kTorchrunHosts, {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}})).size,
      4);
}

TEST(Environment, TorchrunOfSeveralMachinesWithoutAStoreIsRefused) {
  expect_refused(
      with(kTorchrunHosts, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}),
      "TORCHELASTIC_USE_AGENT_STORE=False: expected True");
  auto bare = kTorchrunHosts;
  bare.erase("TORCHELASTIC_USE_AGENT_STORE");
  expect_refused(bare, "TORCHELASTIC_USE_AGENT_STORE is not set");
  auto nowhere = kTorchrunHosts;
  nowhere.erase("MASTER_ADDR");
  expect_refused(nowhere, "MASTER_ADDR is not set");
  expect_refused(
      with(kTorchrunHosts, {{"MASTER_PORT", "70000"}}), "MASTER_PORT=70000");
  expect_refused(
      with(kTorchrunHosts, {{"LOCAL_WORLD_SIZE", "5"}}),
      "LOCAL_WORLD_SIZE=5: expected 1 to 4 ranks");
}

TEST(Environment, AWrongVariableIsNamed) {
  expect_refused({{"ZERO_RANK", "0"}}, "ZERO_SIZE is not set");
  expect_refused(
      {{"ZERO_RANK", "x"}, {"ZERO_SIZE", "1"}},
      "ZERO_RANK=x: expected a whole");
  expect_refused(
      {{"ZERO_RANK", "4"}, {"ZERO_SIZE", "4"}, {"ZERO_ROSTER", "1:2"}},
      "ZERO_RANK=4: expected a rank from 0 to 3");
  expect_refused(
      {{"ZERO_RANK", "0"}, {"ZERO_SIZE", "0"}, {"ZERO_ROSTER", "1:2"}},
      "ZERO_SIZE=0");
  expect_refused(
      {{"ZERO_RANK", "0"}, {"ZERO_SIZE", "1"}, {"ZERO_ROSTER", "12"}},
      "ZERO_ROSTER=12: expected PID:DESCRIPTOR");
  expect_refused(
      {{"ZERO_RANK", "0"}, {"ZERO_SIZE", "1"}}, "ZERO_ROSTER is not set");
  expect_refused({{"WORLD_SIZE", "2"}}, "RANK is not set");
  expect_refused(with(kTorchrun, {{"RANK", "-1"}}), "RANK=-1");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "two"}}), "WORLD_SIZE=two");
}

TEST(Environment, RanksOfMpiAreNotLeftAlone) {
  const auto open =
      read({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}});
  EXPECT_EQ(open.launcher, Launcher::mpi);
  EXPECT_EQ(open.mpi, "openmpi");
  EXPECT_EQ(open.rank, 2);
  EXPECT_EQ(open.size, 4);
  EXPECT_EQ(read({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}).mpi, "mpich");
  const auto alone =
      read({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(alone.launcher, Launcher::none);
  expect_refused(
      {{"OMPI_COMM_WORLD_SIZE", "4"}}, "OMPI_COMM_WORLD_RANK is not set");
  expect_refused({{"SLURM_STEP_NUM_TASKS", "4"}}, "zero run -n 4");
}

TEST(Environment, SrunHandsOnWhatItsMpiNeeds) {
  const Variables step{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}};
  const auto open = read(with(step, {{"PMIX_NAMESPACE", "slurm.pmix.1.0"}}));
  EXPECT_EQ(open.launcher, Launcher::mpi);
  EXPECT_EQ(open.mpi, "openmpi");
  EXPECT_EQ(open.rank, 3);
  EXPECT_EQ(open.size, 4);
  const auto mpich = read(with(step, {{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}}));
  EXPECT_EQ(mpich.mpi, "mpich");
  EXPECT_EQ(mpich.rank, 3);
}

TEST(Settings, AGivenValueWinsOverItsVariable) {
  const Variables variables{
      {"ZERO_TIMEOUT_SECONDS", "3.5"},
      {"ZERO_PROGRESS_TIMEOUT_SECONDS", "60"},
      {"ZERO_VERIFY", "0"}};
  const auto from_variables = read_settings({}, lookup(variables));
  EXPECT_EQ(from_variables.timeout_seconds, 3.5);
  EXPECT_EQ(from_variables.progress_timeout_seconds, 60);
  EXPECT_FALSE(from_variables.verify);
  const auto given = read_settings(
      {.timeout_seconds = 2, .progress_timeout_seconds = {}, .verify = true},
      lookup(variables));
  EXPECT_EQ(given.timeout_seconds, 2);
  EXPECT_EQ(given.progress_timeout_seconds, 60);
  EXPECT_TRUE(given.verify);
}

TEST(Settings, NonsenseIsRefused) {
  for (const char* value : {"0", "-1", "soon", "1s", "nan", "inf", ""}) {
    const Variables variables{{"ZERO_TIMEOUT_SECONDS", value}};
    EXPECT_THROW(read_settings({}, lookup(variables)), ConfigError) << value;
  }
  const Variables variables{{"ZERO_VERIFY", "yes"}};
  EXPECT_THROW(read_settings({}, lookup(variables)), ConfigError);
}

} // namespace
} // namespace zero::comm
