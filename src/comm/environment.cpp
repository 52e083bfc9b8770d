#include "comm/environment.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace zero::comm {

namespace {

constexpr const char* kLauncherFix =
    "leave the variables as the launcher set them, or unset them all to run "
    "alone";
constexpr const char* kSettingFix = "correct the value, or unset the variable";

[[noreturn]] void refuse(
    const char* variable,
    const std::string& got,
    const std::string& expected,
    const char* fix = kLauncherFix) {
  throw ConfigError(
      c10::str(variable, "=", got, ": expected ", expected, ". Fix: ", fix));
}

std::string required(const Lookup& lookup, const char* variable) {
  const char* value = lookup(variable);
  if (value == nullptr) {
    throw ConfigError(c10::str(
        variable,
        " is not set, though other variables of its launcher are. Fix: start "
        "all ranks with one launcher, or unset them all to run alone"));
  }
  return value;
}

int parse_int(const char* variable, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) {
    refuse(variable, text, "a whole number");
  }
  return value;
}

int number(const Lookup& lookup, const char* variable) {
  return parse_int(variable, required(lookup, variable));
}

void check_rank_and_size(
    const Environment& environment,
    const char* rank_variable,
    const char* size_variable) {
  if (environment.size < 1 || environment.size > kMaxRanks) {
    refuse(
        size_variable,
        std::to_string(environment.size),
        c10::str("1 to ", kMaxRanks, " ranks"));
  }
  if (environment.rank < 0 || environment.rank >= environment.size) {
    refuse(
        rank_variable,
        std::to_string(environment.rank),
        c10::str("a rank from 0 to ", environment.size - 1));
  }
}

Environment read_zero_run(const Lookup& lookup) {
  Environment environment;
  environment.launcher = Launcher::zero_run;
  environment.rank = number(lookup, "ZERO_RANK");
  environment.size = number(lookup, "ZERO_SIZE");
  check_rank_and_size(environment, "ZERO_RANK", "ZERO_SIZE");
  if (lookup("ZERO_NEWCOMER") != nullptr) {
    environment.newcomer = number(lookup, "ZERO_NEWCOMER");
    if (*environment.newcomer < environment.size) {
      refuse(
          "ZERO_NEWCOMER",
          std::to_string(*environment.newcomer),
          c10::str("a number from ", environment.size, " on"));
    }
  }
  const std::string address = required(lookup, "ZERO_ROSTER");
  const auto colon = address.find(':');
  if (colon == std::string::npos) {
    refuse("ZERO_ROSTER", address, "PID:DESCRIPTOR");
  }
  environment.roster.pid = parse_int("ZERO_ROSTER", address.substr(0, colon));
  environment.roster.fd = parse_int("ZERO_ROSTER", address.substr(colon + 1));
  return environment;
}

// What only the ranks of one run share, and of one of its restarts.
std::string name_of_run(const Lookup& lookup) {
  const char* run = lookup("TORCHELASTIC_RUN_ID");
  const char* restart = lookup("TORCHELASTIC_RESTART_COUNT");
  return c10::str(
      restart == nullptr ? "0" : restart, "-", run == nullptr ? "none" : run);
}

// `environment` has rank and size.
Environment read_torchrun_hosts(
    const Lookup& lookup,
    Environment environment,
    int local_size) {
  // Without the agent's store, rank 0 would have to open a port for the others,
  // which nothing but its number would protect.
  constexpr const char* kStore = "TORCHELASTIC_USE_AGENT_STORE";
  const char* store = lookup(kStore);
  if (store == nullptr || std::strcmp(store, "True") != 0) {
    throw ConfigError(c10::str(
        "WORLD_SIZE=",
        environment.size,
        " ranks, of which LOCAL_WORLD_SIZE=",
        local_size,
        " are on this machine, and ",
        kStore,
        store == nullptr ? " is not set" : c10::str("=", store),
        ": expected True, for a store by which the ranks can meet. Fix: start "
        "them with torchrun --nnodes and without "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE, or with mpirun"));
  }
  environment.launcher = Launcher::torchrun_hosts;
  environment.mpi = "mpich"; // the one that needs no launcher of its own
  environment.store_host = required(lookup, "MASTER_ADDR");
  const int port = number(lookup, "MASTER_PORT");
  if (port < 1 || port > UINT16_MAX) {
    refuse("MASTER_PORT", std::to_string(port), "a port from 1 to 65535");
  }
  environment.store_port = static_cast<uint16_t>(port);
  environment.meeting =
      c10::str("zero/", name_of_run(lookup), "/", environment.size);
  return environment;
}

Environment read_torchrun(const Lookup& lookup) {
  Environment environment;
  environment.rank = number(lookup, "RANK");
  environment.size = number(lookup, "WORLD_SIZE");
  check_rank_and_size(environment, "RANK", "WORLD_SIZE");
  const int local_size = number(lookup, "LOCAL_WORLD_SIZE");
  if (local_size < 1 || local_size > environment.size) {
    refuse(
        "LOCAL_WORLD_SIZE",
        std::to_string(local_size),
        c10::str("1 to ", environment.size, " ranks"));
  }
  if (local_size != environment.size) {
    return read_torchrun_hosts(lookup, environment, local_size);
  }
  if (environment.size == 1) {
    return environment; // nobody to meet
  }
  environment.launcher = Launcher::torchrun;
  environment.meeting = c10::str(
      "zero-",
      ::getuid(),
      "-",
      required(lookup, "MASTER_PORT"),
      "-",
      name_of_run(lookup));
  return environment;
}

// Open MPI and MPICH, each by the variables that its own launcher sets, and
// srun for it: --mpi=pmi2 sets those of MPICH, --mpi=pmix none that have the
// size.
struct MpiVariables {
  const char* name;
  const char* sign;
  const char* rank;
  const char* size;
};
constexpr MpiVariables kMpis[] = {
    {"openmpi",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE"},
    {"mpich", "PMI_SIZE", "PMI_RANK", "PMI_SIZE"},
    {"openmpi", "PMIX_NAMESPACE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::optional<Environment> read_mpi(const Lookup& lookup) {
  for (const auto& [name, sign, rank, size] : kMpis) {
    if (lookup(sign) == nullptr || lookup(size) == nullptr) {
      continue;
    }
    Environment environment;
    environment.rank = number(lookup, rank);
    environment.size = number(lookup, size);
    check_rank_and_size(environment, rank, size);
    if (environment.size > 1) {
      environment.launcher = Launcher::mpi;
      environment.mpi = name;
    }
    return environment;
  }
  return std::nullopt;
}

// Alone is right only if no launcher has started others.
void refuse_unserved_launchers(const Lookup& lookup) {
  constexpr const char* kVariable = "SLURM_STEP_NUM_TASKS";
  const char* value = lookup(kVariable);
  if (value != nullptr && *value != '\0' && std::strcmp(value, "1") != 0) {
    throw ConfigError(c10::str(
        "srun started ",
        value,
        " ranks (",
        kVariable,
        ") without an MPI. Fix: srun --mpi=pmix for Open MPI, --mpi=pmi2 for "
        "MPICH, or on one machine zero run -n ",
        value,
        " PROGRAM"));
  }
}

double seconds(
    const Lookup& lookup,
    const char* variable,
    const std::optional<double>& given,
    double otherwise) {
  // Less could not be told from a machine that is busy for a moment.
  constexpr double kShortest = 0.01;
  const auto makes_sense = [](double value) {
    return std::isfinite(value) && value >= kShortest;
  };
  if (given) {
    if (!makes_sense(*given)) {
      throw ConfigError(c10::str(
          "InitOptions: a timeout of ",
          *given,
          ": expected a number of seconds from ",
          kShortest,
          ". Fix: correct the value"));
    }
    return *given;
  }
  const char* set = lookup(variable);
  if (set == nullptr) {
    return otherwise;
  }
  char* end = nullptr;
  const double value = std::strtod(set, &end);
  if (end == set || *end != '\0' || !makes_sense(value)) {
    refuse(
        variable,
        set,
        c10::str("a number of seconds from ", kShortest),
        kSettingFix);
  }
  return value;
}

bool flag(
    const Lookup& lookup,
    const char* variable,
    const std::optional<bool>& given,
    bool otherwise) {
  if (given) {
    return *given;
  }
  const char* set = lookup(variable);
  if (set == nullptr) {
    return otherwise;
  }
  const std::string_view text = set;
  if (text != "0" && text != "1") {
    refuse(variable, set, "0 or 1", kSettingFix);
  }
  return text == "1";
}

} // namespace

Environment read_environment(const Lookup& lookup) {
  if (lookup("ZERO_RANK") != nullptr || lookup("ZERO_SIZE") != nullptr ||
      lookup("ZERO_ROSTER") != nullptr) {
    return read_zero_run(lookup);
  }
  if (lookup("RANK") != nullptr || lookup("WORLD_SIZE") != nullptr) {
    return read_torchrun(lookup);
  }
  if (const auto environment = read_mpi(lookup)) {
    return *environment;
  }
  refuse_unserved_launchers(lookup);
  return {};
}

CommSettings read_settings(const InitOptions& options, const Lookup& lookup) {
  const CommSettings defaults;
  return {
      .timeout_seconds = seconds(
          lookup,
          "ZERO_TIMEOUT_SECONDS",
          options.timeout_seconds,
          defaults.timeout_seconds),
      .progress_timeout_seconds = seconds(
          lookup,
          "ZERO_PROGRESS_TIMEOUT_SECONDS",
          options.progress_timeout_seconds,
          defaults.progress_timeout_seconds),
      .verify = flag(lookup, "ZERO_VERIFY", options.verify, defaults.verify)};
}

} // namespace zero::comm
