// What NcclGroup makes of tensors, with a module that needs no GPU; and what
// CUDA tensors are told where there is no module.
#include "comm/nccl/nccl_group.h"

#include <sched.h>

#include <array>
#include <atomic>

#include "comm/cuda_tensor.h"
#include "comm/fake_nccl.h"
#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;
using comm::Group;
using comm::NcclGroup;

int a_stream = 0;

void* stream_of_fake(c10::Device) {
  return &a_stream;
}

// A rank's NcclGroup over the fake, for tensors on the CPU.
struct FakeGroup {
  explicit FakeGroup(const World& world)
      : group(comm::state_of(world)->current()),
        nccl(
            *group,
            CommOp::all_reduce,
            c10::Device(at::kCUDA, 3),
            fake_nccl::kModule,
            stream_of_fake) {}

  void wait(const NcclGroup::Ptr& operation) const {
    group->progress().submit(operation);
    group->progress().wait(operation);
  }
  int rank() const {
    return group->rank();
  }
  int size() const {
    return group->size();
  }

  std::shared_ptr<Group> group;
  NcclGroup nccl;
};

using FakeBody = std::function<void(FakeGroup&)>;

void run_fake(int num_ranks, const FakeBody& body) {
  FakeNccl::reset();
  run_threads(num_ranks, [&body](World world) {
    {
      FakeGroup group(world);
      body(group);
    }
    world.barrier();
  });
  EXPECT_EQ(FakeNccl::get().num_open, 0);
  EXPECT_EQ(FakeNccl::get().num_events, 0);
}

template <class Exception>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "no error";
}

void expect_text(const std::string& message, const std::string& text) {
  EXPECT_NE(message.find(text), std::string::npos) << message;
}

Tensor iota(int64_t numel, at::ScalarType dtype = at::kFloat) {
  return at::arange(numel, at::TensorOptions(dtype));
}

TEST(Nccl, EveryTypeIsHandedOn) {
  const std::array types{
      at::kChar,
      at::kByte,
      at::kInt,
      at::kLong,
      at::kHalf,
      at::kBFloat16,
      at::kFloat,
      at::kDouble};
  run_fake(2, [&](FakeGroup& group) {
    for (const auto type : types) {
      const Tensor tensor = iota(7, type) + group.rank();
      group.wait(group.nccl.all_reduce(tensor, ReduceOp::sum));
      EXPECT_TRUE(tensor.equal(iota(7, type) * 2 + 1)) << type;
    }
  });
  const auto& calls = FakeNccl::get().last->calls[0];
  ASSERT_EQ(calls.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(fake_nccl::dtype_of(calls[i].type), types[i]);
  }
}

TEST(Nccl, EveryReductionIsHandedOnWithTheStream) {
  run_fake(2, [](FakeGroup& group) {
    const auto reduced = [&](ReduceOp op) {
      const Tensor tensor = iota(5) * (group.rank() == 0 ? 1 : -3);
      group.wait(group.nccl.all_reduce(tensor, op));
      return tensor;
    };
    EXPECT_TRUE(reduced(ReduceOp::sum).equal(iota(5) * -2));
    EXPECT_TRUE(reduced(ReduceOp::mean).equal(iota(5) * -1));
    EXPECT_TRUE(reduced(ReduceOp::max).equal(iota(5)));
    EXPECT_TRUE(reduced(ReduceOp::min).equal(iota(5) * -3));
  });
  for (const auto& call : FakeNccl::get().last->calls[1]) {
    EXPECT_EQ(call.stream, &a_stream);
    EXPECT_EQ(call.numel, 5U);
    EXPECT_EQ(call.input, call.output);
  }
}

// Sizes that divide by the ranks are handed on as they are, others padded.
TEST(Nccl, ChunksOfAnySizeAreGathered) {
  for (const int64_t numel : {0, 1, 2, 3, 6, 7, 8, 100}) {
    run_fake(3, [numel](FakeGroup& group) {
      const auto own = chunk_range(numel, group.rank(), group.size());
      const Tensor input = iota(numel).narrow(0, own.offset, own.numel).clone();
      const Tensor output = at::full({numel}, -1.0F);
      group.wait(group.nccl.all_gather(output, input));
      EXPECT_TRUE(output.equal(iota(numel))) << output;
    });
    const auto& call = FakeNccl::get().last->calls[0].at(0);
    EXPECT_EQ(call.numel, static_cast<size_t>((numel + 2) / 3));
  }
}

TEST(Nccl, ChunksOfAnySizeAreReduced) {
  for (const int64_t numel : {0, 1, 2, 3, 6, 7, 8, 100}) {
    run_fake(3, [numel](FakeGroup& group) {
      const auto own = chunk_range(numel, group.rank(), group.size());
      const Tensor input = iota(numel) * (group.rank() + 1);
      const Tensor before = input.clone();
      const Tensor output = at::full({own.numel}, -1.0F);
      group.wait(group.nccl.reduce_scatter(output, input, ReduceOp::sum));
      EXPECT_TRUE(
          output.equal(iota(numel).narrow(0, own.offset, own.numel) * 6))
          << output;
      EXPECT_TRUE(input.equal(before));
    });
  }
}

TEST(Nccl, ChunksInTheirPlaceStayThere) {
  for (const int64_t numel : {6, 7}) {
    run_fake(3, [numel](FakeGroup& group) {
      const auto own = chunk_range(numel, group.rank(), group.size());
      const Tensor whole = at::full({numel}, -1.0F);
      const Tensor chunk = whole.narrow(0, own.offset, own.numel);
      chunk.copy_(iota(numel).narrow(0, own.offset, own.numel));
      group.wait(group.nccl.all_gather(whole, chunk));
      EXPECT_TRUE(whole.equal(iota(numel)));
      group.wait(group.nccl.reduce_scatter(chunk, whole, ReduceOp::mean));
      EXPECT_TRUE(whole.allclose(iota(numel)));
    });
  }
}

TEST(Nccl, TheRootIsHandedOn) {
  run_fake(3, [](FakeGroup& group) {
    for (const int root : {0, 2}) {
      const Tensor tensor = iota(9) + group.rank();
      group.wait(group.nccl.broadcast(tensor, root));
      EXPECT_TRUE(tensor.equal(iota(9) + root));
    }
  });
  EXPECT_EQ(FakeNccl::get().last->calls[1].at(1).rank, 2);
}

TEST(Nccl, MessagesReachTheirPeer) {
  run_fake(2, [](FakeGroup& group) {
    const Tensor tensor = iota(4) + group.rank();
    if (group.rank() == 0) {
      group.wait(group.nccl.send(tensor, 1));
    }
    group.group->barrier(); // the fake's messages do not wait
    if (group.rank() == 1) {
      group.wait(group.nccl.recv(tensor, 0));
    }
    EXPECT_TRUE(tensor.equal(iota(4)));
    group.group->barrier();
  });
}

// A shard that requires a gradient is a leaf, which torch guards.
TEST(Nccl, LeavesAreWrittenTo) {
  run_fake(2, [](FakeGroup& group) {
    const Tensor tensor = at::zeros({5}).requires_grad_();
    const Tensor input = at::ones({group.rank() == 0 ? 3 : 2});
    group.wait(group.nccl.all_gather(tensor, input));
    EXPECT_TRUE(tensor.equal(at::ones({5})));
  });
}

TEST(Nccl, BytesAreCountedByTheFormula) {
  run_fake(3, [](FakeGroup& group) {
    group.group->traffic()->reset();
    group.wait(group.nccl.all_reduce(iota(6), ReduceOp::sum));
    group.wait(group.nccl.all_gather(iota(6), iota(2)));
    group.wait(group.nccl.reduce_scatter(iota(2), iota(6), ReduceOp::sum));
    group.wait(group.nccl.broadcast(iota(6), 1));
    const auto bytes = [&](CommOp op) {
      return group.group->traffic()->get(op).bytes_received;
    };
    EXPECT_EQ(bytes(CommOp::all_reduce), 4 * (2 * 2 + 6 - 2));
    EXPECT_EQ(bytes(CommOp::all_gather), 4 * (6 - 2));
    EXPECT_EQ(bytes(CommOp::reduce_scatter), 4 * 2 * 2);
    EXPECT_EQ(bytes(CommOp::broadcast), group.rank() == 1 ? 0 : 4 * 6);
  });
}

TEST(Nccl, OneDeviceForEachRank) {
  run_fake(2, [](FakeGroup& group) {
    group.nccl.require_device(CommOp::recv, c10::Device(at::kCUDA, 3));
    const auto message = message_of<ConfigError>([&] {
      group.nccl.require_device(CommOp::recv, c10::Device(at::kCUDA, 1));
    });
    expect_text(message, "recv: expected a tensor on cuda:3");
    expect_text(message, "got one on cuda:1");
  });
}

TEST(Nccl, ARankThatCannotStartIsNamedToAll) {
  FakeNccl::reset();
  FakeNccl::get().fails_to_open = 1;
  std::atomic<int> num_told = 0;
  run_threads(3, [&](World world) {
    const auto message =
        message_of<CommError>([&] { const FakeGroup group(world); });
    expect_text(
        message,
        world.rank() == 1 ? "on cuda:3: the fake says so" : "on rank 1");
    ++num_told;
    world.barrier();
  });
  EXPECT_EQ(num_told, 3);
  EXPECT_EQ(FakeNccl::get().num_open, 0);
}

TEST(Nccl, NoIdIsToldToAll) {
  FakeNccl::reset();
  FakeNccl::get().no_id = true;
  run_threads(2, [&](World world) {
    expect_text(
        message_of<CommError>([&] { const FakeGroup group(world); }),
        world.rank() == 0 ? "the fake says so" : "on rank 0");
    world.barrier();
  });
}

TEST(Nccl, RanksThatDoNotConnectAreATimeout) {
  FakeNccl::reset();
  FakeNccl::get().never_connects = true;
  run_threads(
      2,
      [&](World world) {
        const auto message =
            message_of<CommTimeout>([&] { const FakeGroup group(world); });
        expect_text(message, "waited 0.3 s for NCCL to connect");
        world.barrier();
      },
      {.progress_timeout_seconds = 0.3});
  EXPECT_EQ(FakeNccl::get().num_open, 0);
}

// The communicator is closed, since a GPU would go on waiting otherwise.
TEST(Nccl, ALostRankEndsWhatWaitsForIt) {
  FakeNccl::reset();
  FakeNccl::get().takes_at_once = true;
  run_threads(2, [](World world) {
    FakeGroup group(world);
    world.barrier();
    if (world.rank() == 1) {
      return; // which is to leave the world
    }
    const auto operation = group.nccl.all_reduce(iota(3), ReduceOp::sum);
    const auto message = message_of<PeerLost>([&] { group.wait(operation); });
    expect_text(message, "all_reduce(sum, float32, 3 elements)");
    expect_text(message, "rank 1 is lost");
    EXPECT_EQ(FakeNccl::get().num_open, 0);
    // As for all collectives, until shrink().
    expect_text(
        message_of<PeerLost>(
            [&] { group.wait(group.nccl.all_reduce(iota(3), ReduceOp::sum)); }),
        "rank 1 is lost");
  });
}

// Before NCCL has taken the call, it is the call that fails.
TEST(Nccl, ALostRankEndsConnecting) {
  FakeNccl::reset();
  run_threads(2, [](World world) {
    FakeGroup group(world);
    world.barrier();
    if (world.rank() == 0) {
      expect_text(
          message_of<PeerLost>(
              [&] { group.nccl.all_reduce(iota(3), ReduceOp::sum); }),
          "all_reduce: rank 1 is lost");
      // And then all of them.
      expect_text(
          message_of<PeerLost>([&] {
            group.wait(group.nccl.all_reduce(iota(3), ReduceOp::sum));
          }),
          "rank 1 is lost");
    }
  });
  EXPECT_EQ(FakeNccl::get().num_open, 0);
}

TEST(Nccl, WhatNcclMeetsWithIsSaid) {
  FakeNccl::reset();
  FakeNccl::get().takes_at_once = true;
  run_threads(2, [](World world) {
    FakeGroup group(world);
    world.barrier();
    if (world.rank() == 0) {
      const auto operation = group.nccl.all_reduce(iota(3), ReduceOp::sum);
      FakeNccl::get().breaks_down = true;
      const auto message =
          message_of<CommError>([&] { group.wait(operation); });
      expect_text(message, "#");
      expect_text(message, "the fake says so");
      expect_text(message, "Fix:");
    } else {
      while (!FakeNccl::get().breaks_down) {
        ::sched_yield();
      }
    }
  });
}

// A kernel that is ended has no result, although its event has come.
TEST(Nccl, WhatEndsWithNcclIsNotDone) {
  FakeNccl::reset();
  std::atomic<int> num_told = 0;
  run_threads(2, [&num_told](World world) {
    FakeGroup group(world);
    const auto operation = group.nccl.all_reduce(iota(3), ReduceOp::sum);
    world.barrier();
    group.nccl.close();
    expect_text(
        message_of<CommError>([&] { group.wait(operation); }),
        "NCCL was ended by an operation that failed before");
    ++num_told;
    while (num_told < 2) { // else this rank counts as lost
      ::sched_yield();
    }
  });
}

// Without the module, and on any machine.
TEST(Nccl, WithoutTheModuleTheFixIsNamed) {
  if (comm::has_nccl_module()) {
    GTEST_SKIP() << "this build has the module";
  }
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    const auto message = message_of<ConfigError>(
        [&] { comm.all_reduce(cuda_tensor(4)).wait(); });
    expect_text(message, "all_reduce: expected a tensor on the CPU");
    expect_text(message, "got one on cuda:0");
    expect_text(message, ".cpu(), or build libzero with the preset cuda");
    comm.barrier();
  });
  expect_text(
      message_of<ConfigError>([] { comm::load_nccl_module(); }),
      "cannot load libzero's module for NCCL");
}

TEST(Nccl, WindowsAreNotForCudaTensors) {
  run_threads(1, [](World world) {
    auto window = world.communicator().window(64);
    expect_text(
        message_of<ConfigError>([&] { window.get(cuda_tensor(4), 0).wait(); }),
        "windows of CUDA memory are not there yet");
  });
}

} // namespace
} // namespace zero::test
