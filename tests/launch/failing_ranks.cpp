// What ranks do whose end the tests of failure watch.
#include <ATen/ops/ones.h>
#include <torch/nn/modules/linear.h>
#include <zero/zero.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "base/shared_mapping.h"
#include "comm/roster.h"

namespace zero::test {
namespace {

// `victim` is a rank or "all".
int act(const std::string& victim) {
  const std::string address = std::getenv("ZERO_ROSTER");
  const auto colon = address.find(':');
  auto roster = comm::Roster::attach(base::SharedMapping::open(
      {std::stoi(address.substr(0, colon)),
       std::stoi(address.substr(colon + 1))}));
  const int rank = std::stoi(std::getenv("ZERO_RANK"));
  const int other = 1 - rank;
  roster.join(rank);
  while (roster.state(other) == comm::MemberState::absent) {
    std::this_thread::yield();
  }
  if (victim == std::to_string(rank) || victim == "all") {
    // As the library does when it throws PeerLost.
    roster.note_victim(rank);
    std::cout << "my peer is lost" << std::endl;
    std::_Exit(1);
  }
  // The culprit ends later: when the launcher has told that the victim did.
  while (!roster.gone(other)) {
    std::this_thread::yield();
  }
  std::cout << "it was me" << std::endl;
  std::_Exit(9);
}

// Rank 1 is lost in the way that `how` says, rank 0 fails because of it.
int lose_a_peer(const std::string& how) {
  const bool culprit = std::string(std::getenv("ZERO_RANK")) == "1";
  if (culprit && how == "early-exit") {
    std::_Exit(0);
  }
  try {
    const World world = init({.timeout_seconds = 1});
    if (culprit && how == "slow-return") {
      std::atexit([] { std::this_thread::sleep_for(std::chrono::seconds(2)); });
    }
    if (culprit && (how == "return" || how == "slow-return")) {
      return 0;
    }
    if (culprit) {
      ::raise(SIGSTOP);
    }
    world.barrier();
  } catch (const PeerLost& lost) {
    std::cout << lost.what() << std::endl;
    std::_Exit(1);
  }
  return 0;
}

// Each of the ranks in `lost`, such as "12", is lost in the way that `how`
// says; the others go on without them.
int shrink(const std::string& how, const std::string& lost) {
  World world = init({.timeout_seconds = 3});
  const int start_rank = world.rank();
  const auto count = [&world] {
    at::Tensor ranks = at::ones({1});
    world.communicator().all_reduce(ranks).wait();
    return ranks.item<float>();
  };
  std::cout << "one of " << count() << std::endl;
  if (lost.find(std::to_string(start_rank)) != std::string::npos) {
    if (how == "exit") {
      std::_Exit(3);
    }
    ::raise(how == "stop" ? SIGSTOP : SIGKILL);
  }
  while (true) {
    try {
      const float num_left = count();
      std::cout << "now one of " << num_left << std::endl;
      return 0;
    } catch (const PeerLost&) {
      world.shrink();
    }
  }
}

// Trains until there is a file "end" in the folder that MARKS names. Each of
// the ranks in `lost` is lost in the third step in the way that `how` says:
// "kill" or "exit"; who is started in its place trains with the others, unless
// how is "again": then it ends at once; or "late": then it never comes.
int train(const std::string& how, const std::string& lost) {
  const bool is_newcomer = std::getenv("ZERO_NEWCOMER") != nullptr;
  if (is_newcomer && how == "again") {
    std::_Exit(4);
  }
  if (is_newcomer && how == "late") {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  const World world = init({.timeout_seconds = 10});
  const std::string number = std::getenv("ZERO_RANK");
  const auto model = std::make_shared<torch::nn::LinearImpl>(3, 1);
  Engine engine(world, model);
  const std::string end = std::string(std::getenv("MARKS")) + "/end";
  int size = 0;
  float is_end = 0;
  while (is_end == 0) {
    engine.run([&](int64_t) {
      return model->forward(torch::ones({2, 3})).pow(2).mean();
    });
    if (size != world.size()) {
      size = world.size();
      std::cout << "step " << engine.global_step() << ", now one of " << size
                << std::endl;
    }
    if (!is_newcomer && engine.global_step() == 3 &&
        lost.find(number) != std::string::npos) {
      if (how == "exit") {
        std::_Exit(3);
      }
      ::raise(SIGKILL);
    }
    at::Tensor ends = at::zeros({1});
    ends.fill_(std::filesystem::exists(end) ? 1 : 0);
    try {
      world.communicator().all_reduce(ends).wait();
      is_end = ends.item<float>();
    } catch (const PeerLost&) {
      engine.recover();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::cout << "done as one of " << world.size() << std::endl;
  return 0;
}

} // namespace
} // namespace zero::test

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "act") == 0) {
    return zero::test::act(argv[2]);
  }
  if (argc == 3 && std::strcmp(argv[1], "lose") == 0) {
    return zero::test::lose_a_peer(argv[2]);
  }
  if (argc == 4 && std::strcmp(argv[1], "shrink") == 0) {
    return zero::test::shrink(argv[2], argv[3]);
  }
  if (argc == 4 && std::strcmp(argv[1], "train") == 0) {
    return zero::test::train(argv[2], argv[3]);
  }
  std::cerr << "usage: failing_ranks act RANK | lose HOW | shrink HOW RANKS | "
               "train HOW RANKS"
            << std::endl;
  return 2;
}
