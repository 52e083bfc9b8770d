// Ranks that die or stop at any moment, in any operation: the others find out,
// shrink, and go on with right results. The seed is printed; ZERO_TEST_SEED
// runs one again, ZERO_TEST_FAULTS sets how many trials there are.
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;
using std::chrono::steady_clock;

constexpr int kMaxTrialRanks = 6;

double now() {
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch())
      .count();
}

enum class Kind {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  messages,
  window,
  split,
  in_place,
  mixed,
};
constexpr int kNumKinds = 11;

struct Trial {
  uint64_t seed = 0;
  int num_ranks = 2;
  Kind kind = Kind::all_reduce;
  int64_t numel = 0;
  std::vector<int> victims; // in the order of their end
  int signal = SIGKILL;
  double delay_seconds = 0;
};

std::ostream& operator<<(std::ostream& stream, const Trial& trial) {
  stream << "seed " << trial.seed << ": " << trial.num_ranks
         << " ranks, operation " << static_cast<int>(trial.kind) << ", "
         << trial.numel << " elements, signal " << trial.signal << " after "
         << trial.delay_seconds << " s to ranks";
  for (int victim : trial.victims) {
    stream << " " << victim;
  }
  return stream;
}

// What the ranks tell the test. In memory that all of them share.
struct Notes {
  std::atomic<int> num_ready;
  std::array<std::atomic<double>, kMaxTrialRanks> noticed; // when
};

Notes* make_notes() {
  void* memory = ::mmap(
      nullptr,
      sizeof(Notes),
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_ANONYMOUS,
      -1,
      0);
  return new (memory) Notes{};
}

void expect_all(const Tensor& tensor, double value, const char* what) {
  if (!at::equal(tensor, at::full_like(tensor, value))) {
    throw std::runtime_error(c10::str("wrong result of ", what));
  }
}

// One operation, its result checked.
void do_one(Communicator& comm, Kind kind, int64_t numel, int round) {
  const int n = comm.size();
  const int rank = comm.rank();
  const auto own = chunk_range(numel, rank, n);
  const double sum = n * (n + 1) / 2 + n * (round % 5);
  Tensor tensor = at::full({numel}, rank + 1 + round % 5, at::kDouble);
  switch (kind) {
    case Kind::all_reduce:
      comm.all_reduce(tensor).wait();
      expect_all(tensor, sum, "all_reduce");
      break;
    case Kind::reduce_scatter:
      comm.reduce_scatter(tensor).wait();
      expect_all(
          tensor.narrow(0, own.offset, own.numel), sum, "reduce_scatter");
      break;
    case Kind::all_gather: {
      comm.all_gather(tensor).wait();
      for (int other = 0; other < n; ++other) {
        const auto chunk = chunk_range(numel, other, n);
        expect_all(
            tensor.narrow(0, chunk.offset, chunk.numel),
            other + 1 + round % 5,
            "all_gather");
      }
      break;
    }
    case Kind::broadcast:
      comm.broadcast(tensor, round % n).wait();
      expect_all(tensor, round % n + 1 + round % 5, "broadcast");
      break;
    case Kind::all_to_all: {
      Tensor output = at::empty({own.numel * n}, at::kDouble);
      comm.all_to_all(output, tensor).wait();
      for (int other = 0; other < n; ++other) {
        expect_all(
            output.narrow(0, other * own.numel, own.numel),
            other + 1 + round % 5,
            "all_to_all");
      }
      break;
    }
    case Kind::barrier:
      comm.barrier();
      break;
    case Kind::messages: {
      if (n == 1) {
        break;
      }
      Tensor in = at::empty({numel}, at::kDouble);
      Work sent = comm.send(tensor, (rank + 1) % n);
      comm.recv(in, (rank + n - 1) % n).wait();
      sent.wait();
      expect_all(in, (rank + n - 1) % n + 1 + round % 5, "recv");
      break;
    }
    case Kind::window: {
      const Window window = comm.window(numel * 8);
      window.local(at::kDouble, 0, numel).copy_(tensor);
      comm.barrier();
      Tensor in = at::empty({numel}, at::kDouble);
      window.get(in, (rank + 1) % n).wait();
      expect_all(in, (rank + 1) % n + 1 + round % 5, "get");
      break;
    }
    case Kind::split: {
      auto part = comm.split(rank % 2, 0);
      Tensor one = at::ones({3}, at::kDouble);
      part.all_reduce(one).wait();
      expect_all(one, part.size(), "all_reduce of a part");
      break;
    }
    case Kind::in_place: {
      const Window window = comm.window(numel * 8);
      Tensor inside = window.local(at::kDouble, 0, numel);
      inside.copy_(tensor);
      comm.all_reduce(inside).wait();
      expect_all(inside, sum, "all_reduce in place");
      inside.copy_(tensor);
      comm.broadcast(inside, round % n).wait();
      expect_all(inside, round % n + 1 + round % 5, "broadcast in place");
      break;
    }
    case Kind::mixed:
      do_one(
          comm,
          static_cast<Kind>((round * 7 + 3) % (kNumKinds - 1)),
          numel,
          round);
      break;
  }
}

// What each rank does: the operation again and again, until only survivors are
// left, then a few times more.
void live(World world, const Trial& trial, Notes& notes) {
  auto comm = world.communicator();
  const int id = world.rank();
  const int survivors =
      trial.num_ranks - static_cast<int>(trial.victims.size());
  ++notes.num_ready;
  int rounds_left = 20;
  for (int round = 0; rounds_left > 0; ++round) {
    try {
      do_one(comm, trial.kind, trial.numel, round);
      rounds_left -= comm.size() == survivors ? 1 : 0;
    } catch (const PeerLost& lost) {
      notes.noticed[static_cast<size_t>(id)] = now();
      if (lost.rank() < 0 || lost.rank() >= comm.size() ||
          lost.operation().empty()) {
        throw std::runtime_error(c10::str("says too little: ", lost.what()));
      }
      comm = comm.shrink();
      round = -1; // survivors may have been a round apart
    }
  }
  comm.barrier();
}

// Waits for a process, at most until `deadline`; kills it then.
bool ends_well(pid_t pid, double deadline) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Returns how long the slowest survivor took to notice the last loss.
double run_trial(const Trial& trial) {
  constexpr double kStopTimeout = 2;
  Notes* notes = make_notes();
  double noticed_after = 0;
  {
    const InitOptions options{
        .timeout_seconds = kStopTimeout,
        .progress_timeout_seconds = 100,
        .verify = trial.seed % 2 == 0};
    Processes ranks(
        trial.num_ranks,
        [&](World world) { live(std::move(world), trial, *notes); },
        options);
    const double deadline = now() + 120;
    while (notes->num_ready < trial.num_ranks && now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    double struck = 0;
    for (int victim : trial.victims) {
      std::this_thread::sleep_for(
          std::chrono::duration<double>(trial.delay_seconds));
      struck = now();
      ::kill(ranks.pid(victim), trial.signal);
    }
    for (int rank = 0; rank < trial.num_ranks; ++rank) {
      const bool victim =
          std::find(trial.victims.begin(), trial.victims.end(), rank) !=
          trial.victims.end();
      if (!victim) {
        EXPECT_TRUE(ends_well(ranks.release(rank), deadline))
            << "rank " << rank << " hung or failed, " << trial;
        noticed_after = std::max(
            noticed_after, notes->noticed[static_cast<size_t>(rank)] - struck);
      }
    }
    // A stopped rank has been killed by the others.
    for (int victim : trial.victims) {
      const int status = ranks.wait(victim);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          << "victim " << victim << " ended with " << status << ", " << trial;
    }
  }
  ::munmap(notes, sizeof(Notes));
  return noticed_after;
}

uint64_t first_seed() {
  const char* given = std::getenv("ZERO_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

int num_trials(int otherwise) {
  const char* given = std::getenv("ZERO_TEST_FAULTS");
  return given != nullptr ? std::atoi(given) : otherwise;
}

Trial make_trial(uint64_t seed, int signal) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](uint64_t limit) {
    return static_cast<int>(random() % limit);
  };
  Trial trial;
  trial.seed = seed;
  trial.signal = signal;
  trial.num_ranks = 2 + pick(kMaxTrialRanks - 1);
  trial.kind = static_cast<Kind>(pick(kNumKinds));
  const std::array<int64_t, 5> sizes{1, 77, 5000, 100'003, 1'000'003};
  trial.numel = sizes[static_cast<size_t>(pick(sizes.size()))];
  const int num_victims = trial.num_ranks > 2 && pick(3) == 0 ? 2 : 1;
  while (static_cast<int>(trial.victims.size()) < num_victims) {
    const int victim = pick(static_cast<uint64_t>(trial.num_ranks));
    if (std::find(trial.victims.begin(), trial.victims.end(), victim) ==
        trial.victims.end()) {
      trial.victims.push_back(victim);
    }
  }
  trial.delay_seconds = pick(2) == 0 ? pick(2000) * 1e-6 : pick(40) * 1e-3;
  return trial;
}

void run_trials(int count, int signal, const char* what) {
  const uint64_t seed = first_seed();
  std::printf(
      "%d %s, ZERO_TEST_SEED=%llu\n",
      count,
      what,
      static_cast<unsigned long long>(seed));
  std::vector<double> times;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    times.push_back(run_trial(make_trial(seed + i, signal)));
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    std::printf(
        "noticed after: median %.1f ms, worst %.1f ms\n",
        times[times.size() / 2] * 1e3,
        times.back() * 1e3);
  }
}

TEST(Faults, RandomKillsAreSurvived) {
  run_trials(num_trials(170), SIGKILL, "kills");
}

TEST(Faults, RandomStopsAreSurvived) {
  run_trials(num_trials(170) / 4, SIGSTOP, "stops");
}

} // namespace
} // namespace zero::test
