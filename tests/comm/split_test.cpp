// Groups within a group.
#include "comm/ranks.h"

namespace zero::test {
namespace {

using at::Tensor;

class Split : public ::testing::TestWithParam<Backend> {};

TEST_P(Split, RanksOfOneColorFormAGroupInTheOrderOfKeys) {
  run_ranks(GetParam(), 5, [](World world) {
    auto comm = world.communicator();
    // Even ranks in reverse order, odd ones as they are.
    const int color = comm.rank() % 2;
    auto part = comm.split(color, color == 0 ? -comm.rank() : 0);
    EXPECT_EQ(part.size(), color == 0 ? 3 : 2);
    EXPECT_EQ(part.rank(), color == 0 ? 2 - comm.rank() / 2 : comm.rank() / 2);
    Tensor sum = at::full({100'000}, comm.rank(), at::kFloat);
    part.all_reduce(sum).wait();
    EXPECT_TRUE(at::equal(sum, at::full_like(sum, color == 0 ? 6 : 4)));
  });
}

TEST_P(Split, AGroupOfOneIsAGroup) {
  run_ranks(GetParam(), 3, [](World world) {
    auto comm = world.communicator();
    auto alone = comm.split(comm.rank(), 0);
    EXPECT_EQ(alone.size(), 1);
    Tensor one = at::ones({5});
    alone.all_reduce(one).wait();
    alone.barrier();
    EXPECT_TRUE(at::equal(one, at::ones({5})));
  });
}

TEST_P(Split, GroupsDoNotDisturbEachOther) {
  run_ranks(GetParam(), 4, [](World world) {
    auto comm = world.communicator();
    auto row = comm.split(comm.rank() / 2, 0);
    auto column = comm.split(comm.rank() % 2, 0);
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 30; ++i) {
      for (auto* group : {&comm, &row, &column}) {
        tensors.push_back(at::ones({i * 4000 + 1}));
        works.push_back(group->all_reduce(tensors.back()));
      }
    }
    for (size_t i = 0; i < works.size(); ++i) {
      works[i].wait();
      const float expected = i % 3 == 0 ? 4 : 2;
      EXPECT_TRUE(at::equal(tensors[i], at::full_like(tensors[i], expected)));
    }
  });
}

TEST_P(Split, AGroupOutlivesTheOneItCameFrom) {
  run_ranks(GetParam(), 2, [](World world) {
    Communicator inner = [&world] {
      auto outer = world.communicator().split(0, 0);
      return outer.split(0, 0);
    }();
    Tensor one = at::ones({3});
    inner.all_reduce(one).wait();
    EXPECT_TRUE(at::equal(one, at::full({3}, 2.0F)));
  });
}

TEST_P(Split, TheSequenceStartsAnewInEachGroup) {
  run_ranks(GetParam(), 2, [](World world) {
    auto comm = world.communicator();
    comm.barrier();
    auto part = comm.split(0, 0);
    try {
      // Verified, so both ranks hear of it.
      part.all_reduce(at::ones({comm.rank() + 1})).wait();
      ADD_FAILURE();
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("#0"), std::string::npos)
          << error.what();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends,
    Split,
    ::testing::Values(Backend::local, Backend::shm),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace zero::test
