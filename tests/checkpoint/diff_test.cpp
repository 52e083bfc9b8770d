// In what checkpoints differ.
#include "checkpoint/diff.h"

#include <torch/torch.h>

#include <cmath>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/handmade.h"
#include "checkpoint/saved_example.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

struct Differences {
  Strings lines;
  checkpoint::DiffResult result;
};

Differences differences(const std::string& a, const std::string& b) {
  Differences found;
  checkpoint::CheckpointReader reader_a(a);
  checkpoint::CheckpointReader reader_b(b);
  found.result =
      checkpoint::diff(reader_a, reader_b, [&](const std::string& line) {
        found.lines.push_back(line);
      });
  EXPECT_EQ(found.lines.empty(), found.result.is_equal());
  return found;
}

Differences differences_of(const at::Tensor& a, const at::Tensor& b) {
  const TemporaryFolder folder;
  write_checkpoint_of(folder.path() / "a", a);
  write_checkpoint_of(folder.path() / "b", b);
  return differences(folder.path() / "a", folder.path() / "b");
}

TEST(Diff, TheLargestDifferenceIsFound) {
  for (const auto dtype :
       {torch::kFloat,
        torch::kDouble,
        torch::kHalf,
        torch::kBFloat16,
        torch::kLong,
        torch::kInt,
        torch::kShort,
        torch::kChar,
        torch::kByte}) {
    const auto a = torch::ones({30, 20}, dtype);
    auto b = a.clone();
    EXPECT_TRUE(differences_of(a, b).result.is_equal());
    b[3][4] = 3;
    b[29][19] = 5;
    b[7][0] = 0;
    EXPECT_EQ(
        differences_of(a, b).lines,
        Strings{"parameter/w: 3 of 600 elements differ, by at most 4 at "
                "[29, 19]: 1 and 5"})
        << dtype;
  }
}

TEST(Diff, WhatIsNoNumberDiffersMost) {
  auto a = torch::zeros({600'000}); // more than a block
  a[5] = NAN;
  auto b = a.clone();
  EXPECT_TRUE(differences_of(a, b).result.is_equal());
  b[599'999] = INFINITY;
  b[300'000] = NAN;
  b[8] = 3;
  EXPECT_EQ(
      differences_of(a, b).lines,
      Strings{"parameter/w: 3 of 600,000 elements differ, by at most nan at "
              "[300000]: 0 and nan"});
  EXPECT_EQ(
      differences_of(torch::zeros({}), torch::ones({})).lines,
      Strings{"parameter/w: 1 of 1 element differs, by at most 1 at []: 0 and "
              "1"});
}

TEST(Diff, OtherStridesAreADifferenceOfTheirOwn) {
  const auto a = torch::randn({6, 5}).t();
  const auto found = differences_of(a, a.contiguous());
  EXPECT_EQ(found.lines, Strings{"parameters/w/strides: [1,5] and [6,1]"});
  EXPECT_EQ(found.result.num_equal, 1);
}

TEST(Diff, OtherTypesAndSizesAreTold) {
  EXPECT_EQ(
      differences_of(torch::ones({2, 3}), torch::ones({3, 2}, torch::kDouble))
          .lines,
      (Strings{
          "parameters/w/strides: [3,1] and [2,1]",
          "parameter/w: F32 [2, 3] and F64 [3, 2]"}));
}

TEST(Diff, TrainingsThatDifferAreTold) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path() / "a", 3, 2);
  make_checkpoints_of("odd", folder.path() / "b", 2, 1, {1, false});
  make_checkpoints_of("resnet", folder.path() / "c", 1);
  const auto newest = [&](const char* name) {
    return checkpoint::find_checkpoints(folder.path() / name).at(0).path;
  };
  EXPECT_TRUE(differences(newest("a"), newest("a")).result.is_equal());
  std::string all;
  for (const auto& line : differences(newest("a"), newest("b")).lines) {
    all += line + "\n";
  }
  for (const std::string line :
       {"step: 2 and 1",
        "sampler/position: 24 and 12",
        "configuration/zero_optimization/stage: 3 and 1",
        "configuration/libzero/shared_memory: true and false",
        "parameters/first.weight/updates: 2 and 1",
        "parameter/first.weight: ",
        "state.0/first.weight: "}) {
    EXPECT_TRUE(has(all, line)) << line << "\nin\n" << all;
  }
  EXPECT_FALSE(has(all, "parameter/frozen.weight")) << all;
  EXPECT_FALSE(has(all, "notes")) << all;

  all.clear();
  for (const auto& line : differences(newest("a"), newest("c")).lines) {
    all += line + "\n";
  }
  EXPECT_TRUE(has(all, "parameter/first.weight: only in the first")) << all;
  EXPECT_TRUE(has(all, "buffer/norm0.running_mean: only in the second")) << all;
}

} // namespace
} // namespace zero::test
