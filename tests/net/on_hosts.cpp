// What the tests in this folder start on several hosts:
//
//   on_hosts collectives   checks them, and who is where
//   on_hosts wait          meets the others, then waits for one that is lost
//   on_hosts train         a few steps at every stage; prints the losses
//   on_hosts measure       how long collectives take
//   on_hosts train-on S N R FOLDER
//                          trains N steps at stage 3, whoever is lost, with
//                          shared memory if S is 1, and copies if R is; saves
//                          to the folder, if one is given; prints losses
//   on_hosts go-on N       goes on after losses, until N ranks are left
//   on_hosts store PORT    no rank: keeps the store that torchrun's agent keeps
//   on_hosts own-mpi FILE  collectives, in a program that has initialised MPI,
//                          which is in that file, itself
#include <dlfcn.h>
#include <torch/torch.h>
#include <unistd.h>
#include <zero/zero.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace {

void require(bool condition, const char* what) {
  if (!condition) {
    throw zero::Error(std::string("wrong: ") + what);
  }
}

void check_collectives(const zero::World& world) {
  auto comm = world.communicator();
  const int rank = world.rank();
  const int size = world.size();
  for (const int64_t numel : {1, 7, 5'000, 400'003}) {
    at::Tensor tensor = at::arange(numel).remainder(5) + rank;
    comm.all_reduce(tensor).wait();
    const at::Tensor sum =
        at::arange(numel).remainder(5) * size + size * (size - 1) / 2;
    require(at::equal(tensor, sum), "all_reduce");

    tensor = at::zeros({numel});
    const auto own = zero::chunk_range(numel, rank, size);
    tensor.narrow(0, own.offset, own.numel).fill_(rank + 1);
    comm.all_gather(tensor).wait();
    for (int from = 0; from < size; ++from) {
      const auto range = zero::chunk_range(numel, from, size);
      require(
          tensor.narrow(0, range.offset, range.numel)
              .eq(from + 1)
              .all()
              .item<bool>(),
          "all_gather");
    }
    tensor = at::full({numel}, rank);
    comm.broadcast(tensor, size - 1).wait();
    require(tensor.eq(size - 1).all().item<bool>(), "broadcast");
  }
  const int next = (rank + 1) % size;
  const int before = (rank + size - 1) % size;
  at::Tensor sent = at::full({100'000}, rank);
  at::Tensor received = at::zeros({100'000}, at::kLong);
  auto sending = comm.send(sent, next);
  comm.recv(received, before).wait();
  sending.wait();
  require(received.eq(before).all().item<bool>(), "recv");
}

torch::Tensor loss_of(
    torch::nn::Sequential& net,
    const zero::World& world,
    int step) {
  torch::manual_seed(static_cast<uint64_t>(100 * step + world.rank()));
  const torch::Tensor input = torch::randn({16, 37});
  const torch::Tensor target = input.sum(1, /*keepdim=*/true).tanh();
  return torch::mse_loss(net->forward(input), target);
}

torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(
      torch::nn::Linear(37, 300),
      torch::nn::Tanh(),
      torch::nn::Linear(300, 300),
      torch::nn::Tanh(),
      torch::nn::Linear(300, 1));
}

zero::Config config_of(int stage, bool shared) {
  zero::Config config;
  config.zero_optimization.stage = stage;
  config.libzero.shared_memory = shared;
  config.zero_optimization.reduce_bucket_size = 20'000;
  config.optimizer.lr = 1e-2;
  return config;
}

void train(const zero::World& world) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const bool shared : {true, false}) {
      auto net = make_net();
      zero::Engine engine(world, net.ptr(), config_of(stage, shared));
      std::string line;
      for (int step = 0; step < 5; ++step) {
        const torch::Tensor loss = loss_of(net, world, step);
        engine.backward(loss);
        engine.step();
        torch::Tensor mean = loss.detach().clone();
        world.communicator().all_reduce(mean, zero::ReduceOp::mean).wait();
        line += " " + std::to_string(mean.item<double>());
      }
      if (world.rank() == 0) {
        std::printf("stage %d %d:%s\n", stage, shared ? 1 : 0, line.c_str());
      }
      world.barrier(); // others may still read what this one has
    }
  }
}

// Seconds of 16 MiB, the median of some.
void measure(const zero::World& world) {
  auto comm = world.communicator();
  const torch::Tensor tensor = torch::ones({int64_t{4} << 20});
  const auto time = [&](const char* name, const auto& call) {
    std::vector<double> seconds;
    for (int i = 0; i < 9; ++i) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      call();
      seconds.push_back(std::chrono::duration<double>(
                            std::chrono::steady_clock::now() - start)
                            .count());
    }
    std::sort(seconds.begin(), seconds.end());
    if (world.rank() == 0) {
      std::printf("%s %.4f\n", name, seconds[seconds.size() / 2]);
    }
  };
  time("all_gather", [&] { comm.all_gather(tensor).wait(); });
  time("all_reduce", [&] { comm.all_reduce(tensor).wait(); });
}

void go_on(zero::World& world, int enough) {
  while (world.size() > enough) {
    try {
      at::Tensor tensor = at::zeros({1'000'000});
      for (;;) {
        world.communicator().all_reduce(tensor).wait();
        ::usleep(1000);
      }
    } catch (const zero::PeerLost&) {
      world.shrink();
      at::Tensor ones = at::ones({1'000'000});
      world.communicator().all_reduce(ones).wait();
      require(ones.eq(world.size()).all().item<bool>(), "after a loss");
      std::printf("goes on with %d\n", world.size());
      std::fflush(stdout);
    }
  }
  world.barrier();
}

// The program's own use of MPI, which libzero leaves alone.
class OwnMpi {
 public:
  explicit OwnMpi(const char* file)
      : library_(::dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {
    require(library_ != nullptr, "there is no MPI");
    constexpr int kThreadMultiple = 3; // of Open MPI and MPICH
    int level = 0;
    function<int(int*, char***, int, int*)>("MPI_Init_thread")(
        nullptr, nullptr, kThreadMultiple, &level);
    require(level == kThreadMultiple, "MPI_THREAD_MULTIPLE");
  }
  ~OwnMpi() {
    function<int()>("MPI_Finalize")();
  }
  OwnMpi(const OwnMpi&) = delete;
  OwnMpi& operator=(const OwnMpi&) = delete;

 private:
  template <class Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(::dlsym(library_, name));
  }

  void* library_;
};

[[noreturn]] void keep_store(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store("0.0.0.0", options);
  std::printf("the store is there\n");
  std::fflush(stdout);
  for (;;) {
    ::pause();
  }
}

constexpr int64_t kSamplesOfAStep = 48; // of all ranks together

torch::Tensor squared_errors(
    torch::nn::Sequential& net,
    int64_t step,
    int64_t first,
    int64_t every) {
  torch::manual_seed(static_cast<uint64_t>(step));
  const torch::Tensor all = torch::randn({kSamplesOfAStep, 37});
  const torch::Tensor input =
      all.slice(0, first, kSamplesOfAStep, every).contiguous();
  const torch::Tensor target = input.sum(1, /*keepdim=*/true).tanh();
  return torch::mse_loss(net->forward(input), target, torch::Reduction::Sum) /
      static_cast<double>(kSamplesOfAStep);
}

// At stage 3 with small budgets, where most goes over the wire. However many
// ranks there are, a step has the same samples.
void train_on(
    zero::World world,
    bool shared,
    int64_t num_steps,
    bool has_copies,
    const std::string& folder) {
  auto net = make_net();
  zero::Config config = config_of(3, shared);
  config.optimizer.lr = 1e-3;
  config.libzero.gather_budget.share = shared ? 0.3 : 0;
  config.libzero.redundancy = has_copies ? 1 : 0;
  zero::Engine engine(world, net.ptr(), config);
  const int number = world.rank();
  const auto say_loss = [&](int64_t step) {
    const torch::NoGradGuard no_grad;
    const double loss = squared_errors(net, -1, 0, 1).item<double>();
    std::printf(
        "rank %d of %d at step %ld, loss %.6f\n",
        number,
        world.size(),
        static_cast<long>(step),
        loss);
    std::fflush(stdout);
  };
  while (engine.global_step() < num_steps) {
    try {
      const auto result = engine.run([&](int64_t) {
        return world.size() *
            squared_errors(
                   net, engine.global_step(), world.rank(), world.size());
      });
      if (result.step % 20 == 0 && world.rank() == 0) {
        say_loss(result.step);
      }
      if (!folder.empty() && result.step % 50 == 0) {
        engine.save(folder);
      }
    } catch (const c10::Error&) { // what a lost rank had did not come
      engine.recover();
    } catch (const zero::PeerLost&) { // in save()
      engine.recover();
    }
  }
  world.barrier();
}

} // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool waits = mode == "wait" || mode == "train-on";
  try {
    if (mode == "store") {
      keep_store(std::stoi(argv[2]));
    }
    std::optional<OwnMpi> own_mpi;
    if (mode == "own-mpi") {
      own_mpi.emplace(argv[2]);
    }
    zero::World world = zero::init();
    char host[64] = {};
    ::gethostname(host, sizeof(host) - 1);
    std::printf(
        "rank %d of %d, %d of %d on %s, host %d of %d, process %d\n",
        world.rank(),
        world.size(),
        world.local_rank(),
        world.local_size(),
        host,
        world.node(),
        world.num_nodes(),
        static_cast<int>(::getpid()));
    std::fflush(stdout);
    if (mode == "train-on") {
      train_on(
          world,
          std::stoi(argv[2]) == 1,
          std::stoi(argv[3]),
          argc > 4 && std::stoi(argv[4]) == 1,
          argc > 5 ? argv[5] : "");
      return 0;
    }
    if (mode == "go-on") {
      go_on(world, std::stoi(argv[2]));
      return 0;
    }
    if (mode == "train") {
      train(world);
    }
    if (mode == "measure") {
      measure(world);
      return 0;
    }
    if (waits) {
      at::Tensor tensor = at::zeros({10});
      for (;;) {
        world.communicator().all_reduce(tensor).wait();
        ::usleep(1000);
      }
    }
    check_collectives(world);
    world.barrier();
    std::printf("rank %d is done\n", world.rank());
  } catch (const zero::PeerLost& lost) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::printf(
        "lost rank %d at %.3f\n",
        lost.rank(),
        std::chrono::duration<double>(now).count());
    std::fflush(stdout);
    // mpirun may end the others when one ends that has not finalised MPI.
    ::sleep(waits ? 1 : 0);
    ::_exit(waits ? 0 : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "on_hosts: %s\n", error.what());
    if (mode == "train-on") { // as above
      ::sleep(1);
      ::_exit(0);
    }
    return 1;
  }
  return 0;
}
