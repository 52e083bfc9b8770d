// The module itself, as the preset `cuda` builds it. On a machine without a GPU
// it is loaded, and refuses to start; nothing else of it can be run there.
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/cuda_tensor.h"
#include "comm/nccl/nccl_group.h"
#include "comm/ranks.h"

namespace zero::test {
namespace {

using Id = std::array<std::byte, kZeroNcclIdBytes>;

// An id, if this machine has no GPU.
std::optional<Id> id_without_gpu(const ZeroNcclModule& module) {
  Id id = {};
  EXPECT_EQ(module.make_id(id.data()), 0) << module.error();
  if (auto* comm = module.open(id.data(), 0, 1, 0)) {
    module.close(comm);
    return std::nullopt;
  }
  return id;
}

void expect_told(
    const std::function<void()>& call,
    const std::vector<std::string>& texts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    for (const auto& text : texts) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
          << error.what();
    }
  }
}

TEST(NcclModule, IsLoadedAndTellsItsVersion) {
  ASSERT_TRUE(comm::has_nccl_module());
  const auto& module = comm::load_nccl_module();
  EXPECT_EQ(module.version, kZeroNcclModuleVersion);
  EXPECT_EQ(std::string(module.library()).rfind("NCCL 2.", 0), 0U)
      << module.library();
}

TEST(NcclModule, RefusesToStartWithoutAGpu) {
  const auto& module = comm::load_nccl_module();
  const auto id = id_without_gpu(module);
  if (!id) {
    GTEST_SKIP() << "there is a GPU";
  }
  EXPECT_EQ(module.open(id->data(), 0, 2, 0), nullptr);
  EXPECT_NE(
      std::string(module.error()).find("cudaGetDeviceCount failed: "),
      std::string::npos)
      << module.error();
}

TEST(NcclModule, AllRanksAreToldThatThereIsNoGpu) {
  if (!id_without_gpu(comm::load_nccl_module())) {
    GTEST_SKIP() << "there is a GPU";
  }
  run_ranks(Backend::shm, 2, [](World world) {
    auto comm = world.communicator();
    expect_told(
        [&] { comm.all_reduce(cuda_tensor(4)).wait(); },
        {"all_reduce: NCCL does not start on cuda:0: cudaGetDeviceCount",
         "Fix: give each rank a GPU"});
    comm.barrier(); // goes on with the CPU
  });
}

TEST(NcclModule, WhatDoesNotFitIsRefusedBeforeNccl) {
  run_threads(2, [](World world) {
    auto comm = world.communicator();
    expect_told(
        [&] { comm.all_gather(cuda_tensor(4), at::ones({2})).wait(); },
        {"expected one device, got cuda:0 for the output and cpu"});
    expect_told(
        [&] { comm.all_to_all(cuda_tensor(4)).wait(); },
        {"all_to_all: not there yet for CUDA tensors"});
    comm.barrier();
  });
}

} // namespace
} // namespace zero::test
