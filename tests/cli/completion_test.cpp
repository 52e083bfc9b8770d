// `zero completion`.
#include <gtest/gtest.h>

#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

std::string script_for(const std::string& shell_name) {
  Job job({zero_program(), "completion", shell_name});
  EXPECT_EQ(job.wait(), 0) << job.err();
  return job.out();
}

// What bash offers for a line that ends with a word begun.
std::string offered(const std::string& words, int count) {
  Job job(
      {"bash",
       "-c",
       script_for("bash") + "COMP_WORDS=(" + words + "); COMP_CWORD=" +
           std::to_string(count) + "; _zero; echo \"${COMPREPLY[*]}\""});
  EXPECT_EQ(job.wait(), 0) << job.err();
  return job.out();
}

TEST(Completion, BashOffersCommandsAndTheirOptions) {
  EXPECT_EQ(offered("zero tr", 1), "train\n");
  EXPECT_EQ(offered("zero train --ove", 2), "--overwrite\n");
  EXPECT_EQ(offered("zero generate --top", 2), "--top-k --top-p\n");
  EXPECT_EQ(offered("zero bench coll", 2), "collectives\n");
  EXPECT_TRUE(has(offered("zero bench collectives --js", 3), "--json"));
  EXPECT_EQ(offered("zero data a.txt --format n", 4), "nanogpt\n");
  EXPECT_EQ(offered("zero run -n 2 --on-loss s", 5), "stop shrink\n");
  EXPECT_EQ(offered("zero ckpt re", 2), "reshard\n");
  EXPECT_EQ(offered("zero ckpt export --max", 3), "--max-shard-bytes\n");
  EXPECT_EQ(offered("zero completion z", 2), "zsh\n");
}

TEST(Completion, OtherShellsHaveTheSameCommands) {
  EXPECT_TRUE(has(script_for("zsh"), "bashcompinit"));
  EXPECT_TRUE(has(script_for("fish"), "-a train"));
  EXPECT_TRUE(
      has(script_for("fish"), "__fish_seen_subcommand_from train' -l set"));
}

} // namespace
} // namespace zero::test
