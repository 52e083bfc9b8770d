// `zero ckpt`.
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/torch.h>

#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/handmade.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/saved_example.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

namespace fs = std::filesystem;

struct Answer {
  int code;
  std::string out;
  std::string err;
};

Answer ckpt(const Strings& arguments, const JobOptions& options = {}) {
  Strings command{zero_program(), "ckpt"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Job job(command, options);
  const int code = job.wait();
  return {code, job.out(), job.err()};
}

Strings lines_of(const std::string& text) {
  std::istringstream stream(text);
  Strings lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST(Ckpt, ListHasTheNewestFirstAndSaysWhatIsDamaged) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path(), 3, 3);
  fs::remove(folder.path() / "save-000002-step-2" / "rank-00001.safetensors");
  flip_bit_at(folder.path() / "save-000001-step-1" / "manifest.json", 50);

  const Answer table = ckpt({"list", folder.path()});
  EXPECT_EQ(table.code, 0) << table.err;
  const auto rows = lines_of(table.out);
  ASSERT_EQ(rows.size(), 4) << table.out;
  EXPECT_TRUE(has(rows[1], "whole")) << table.out;
  EXPECT_TRUE(has(rows[2], "not whole")) << table.out;
  EXPECT_TRUE(has(rows[2], "rank-00001.safetensors")) << table.out;
  EXPECT_TRUE(has(rows[3], "manifest.json")) << table.out;

  const Answer json = ckpt({"list", "--json", folder.path()});
  const auto objects = lines_of(json.out);
  ASSERT_EQ(objects.size(), 3) << json.out;
  const auto newest = nlohmann::json::parse(objects[0]);
  EXPECT_EQ(newest.at("path"), (folder.path() / "save-000003-step-3").string());
  EXPECT_EQ(newest.at("number"), 3);
  EXPECT_EQ(newest.at("step"), 3);
  EXPECT_EQ(newest.at("ranks"), 3);
  EXPECT_EQ(newest.at("stage"), 3);
  EXPECT_EQ(newest.at("whole"), true);
  uint64_t bytes = 0;
  for (const char* name : {"rank-00000", "rank-00001", "rank-00002"}) {
    bytes += fs::file_size(
        folder.path() / "save-000003-step-3" /
        (std::string(name) + ".safetensors"));
  }
  EXPECT_EQ(newest.at("bytes"), bytes);
  EXPECT_EQ(newest.at("saved_at").get<std::string>().size(), 20);
  EXPECT_EQ(nlohmann::json::parse(objects[1]).at("whole"), false);
  const auto oldest = nlohmann::json::parse(objects[2]);
  EXPECT_EQ(oldest.at("step"), 1);
  EXPECT_TRUE(has(oldest.at("problem"), "checksum")) << json.out;
}

TEST(Ckpt, InspectShowsWhatItIsOf) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path() / "odd", 3, 2);
  const Answer odd = ckpt({"inspect", folder.path() / "odd"});
  EXPECT_EQ(odd.code, 0) << odd.err;
  for (const std::string part :
       {"save-000002-step-2",
        "step        2",
        "3 at stage 3",
        "Adam, 2 tensors",
        "at 24, of 100 samples, shuffled, seed 7",
        "task = \"test\"",
        "parameters  10",
        "first.weight  F32 [15, 7]  2 updates",
        "frozen.weight  F32 [16, 15]  frozen",
        "scale  F32 []",
        "empty  F32 [0, 3]",
        "buffers     0"}) {
    EXPECT_TRUE(has(odd.out, part)) << part << " in\n" << odd.out;
  }
  // A certain one.
  const Answer first =
      ckpt({"inspect", folder.path() / "odd" / "save-000001-step-1/"});
  EXPECT_TRUE(has(first.out, "step        1")) << first.out;

  make_checkpoints_of("gpt", folder.path() / "gpt", 2);
  const Answer gpt = ckpt({"inspect", folder.path() / "gpt"});
  EXPECT_TRUE(has(gpt.out, "head  F32 [61, 24]  1 update, also tokens.weight"))
      << gpt.out;

  make_checkpoints_of("resnet", folder.path() / "resnet", 1);
  const Answer json = ckpt({"inspect", "--json", folder.path() / "resnet"});
  EXPECT_EQ(json.code, 0) << json.err;
  const auto facts = nlohmann::json::parse(json.out);
  EXPECT_EQ(facts.at("step"), 1);
  EXPECT_EQ(facts.at("optimizer"), "Adam");
  EXPECT_EQ(facts.at("sampler").at("position"), 12);
  EXPECT_EQ(facts.at("notes").at("task"), "test");
  EXPECT_EQ(facts.at("buffers").size(), 9);
  EXPECT_EQ(facts.at("configuration").at("zero_optimization").at("stage"), 3);
}

TEST(Ckpt, VerifyFindsOneBitInWhateverFile) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path(), 3, 2);
  const Answer whole = ckpt({"verify", folder.path()});
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_EQ(lines_of(whole.out).size(), 2) << whole.out;

  const fs::path first = folder.path() / "save-000001-step-1";
  const fs::path shard = first / "rank-00002.safetensors";
  flip_bit_at(shard, static_cast<int64_t>(fs::file_size(shard)) - 1);
  const Answer damaged = ckpt({"verify", folder.path()});
  EXPECT_EQ(damaged.code, 1);
  const auto lines = lines_of(damaged.out);
  ASSERT_EQ(lines.size(), 2) << damaged.out;
  EXPECT_EQ(lines[0].find("whole      "), 0) << damaged.out;
  EXPECT_EQ(lines[1].find("not whole  "), 0) << damaged.out;
  EXPECT_TRUE(has(lines[1], "rank-00002.safetensors")) << damaged.out;
  EXPECT_TRUE(has(lines[1], "the checksum of 'random' is wrong"))
      << damaged.out;
  // Sizes and headers do not tell.
  EXPECT_FALSE(has(ckpt({"list", folder.path()}).out, "not whole"));

  EXPECT_EQ(ckpt({"verify", folder.path() / "save-000002-step-2"}).code, 0);
  EXPECT_EQ(ckpt({"verify", first}).code, 1);
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_EQ(ckpt({"verify", first}).code, 1);
  fs::remove(first / "manifest.json");
  EXPECT_TRUE(has(ckpt({"verify", folder.path()}).out, "manifest.json"));
}

TEST(Ckpt, ExportHasTheValuesOfTheEngine) {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  const Values values = make_checkpoints_of("odd", run / "checkpoint", 3);
  fs::create_directories(run / "model");
  std::ofstream(run / "model" / "config.json") << "{}";
  const std::string out = folder.path() / "out";
  const Answer exported = ckpt({"export", run / "checkpoint", out});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(read_file(out + "/config.json"), "{}");
  const checkpoint::SafetensorsReader reader(out + "/model.safetensors");
  EXPECT_EQ(reader.entries().size(), values.size());
  for (const auto& [name, value] : values) {
    EXPECT_TRUE(torch::equal(reader.read(name), value)) << name;
  }

  const std::string parts = folder.path() / "parts";
  const Answer divided =
      ckpt({"export", run / "checkpoint", parts, "--max-shard-bytes", "500B"});
  EXPECT_EQ(divided.code, 0) << divided.err;
  EXPECT_TRUE(fs::exists(parts + "/model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(parts + "/model.safetensors"));
}

TEST(Ckpt, ExportIsThereWholeOrNotAtAll) {
  const TemporaryFolder folder;
  make_checkpoints_of("odd", folder.path() / "saved", 2);
  const fs::path out = folder.path() / "to" / "out";
  int failures = 0;
  for (;; ++failures) {
    JobOptions options;
    options.set = {
        "ZERO_FAILPOINT=file.call:enospc@" + std::to_string(failures + 1)};
    const Answer exported = ckpt(
        {"export", folder.path() / "saved", out, "--max-shard-bytes", "2kB"},
        options);
    if (exported.code == 0) {
      break;
    }
    ASSERT_EQ(exported.code, 1) << exported.err;
    EXPECT_TRUE(has(exported.err, "No space left")) << exported.err;
    EXPECT_TRUE(fs::is_empty(folder.path() / "to"));
  }
  EXPECT_GT(failures, 5);
  EXPECT_TRUE(fs::exists(out / "model.safetensors.index.json"));
}

// The most memory that a call takes, in bytes.
int64_t peak_memory(const Strings& arguments) {
  Strings command{zero_program(), "ckpt"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> pointers;
    for (auto& argument : command) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(99);
  }
  int status = 0;
  rusage usage = {};
  ::wait4(pid, &status, 0, &usage);
  EXPECT_EQ(status, 0);
  return int64_t{1024} * usage.ru_maxrss;
}

TEST(Ckpt, LargeOnesTakeNoMoreMemoryThanSmallOnes) {
  constexpr int64_t kNumel = 50'000'000; // 200 MB
  constexpr int64_t kMuch = 20'000'000; // what allocators and caches vary by
  const TemporaryFolder folder;
  const std::string small = folder.path() / "small";
  const std::string large = folder.path() / "large";
  const std::string out = folder.path() / "out";
  write_checkpoint_of(small, torch::ones({10}));
  write_checkpoint_of(large, torch::ones({kNumel}));
  const auto peaks = [&](const std::string& from) {
    fs::remove_all(out);
    return std::vector<int64_t>{
        peak_memory({"verify", from}),
        peak_memory({"export", from, out + "/exported"}),
        peak_memory({"reshard", from, out + "/resharded", "--ranks", "3"}),
        peak_memory({"diff", from, out + "/resharded"})};
  };
  const auto of_small = peaks(small);
  const auto of_large = peaks(large);
  for (size_t i = 0; i < of_small.size(); ++i) {
    EXPECT_LT(of_large[i], of_small[i] + kMuch) << i;
  }
  EXPECT_EQ(
      fs::file_size(out + "/exported/model.safetensors") / 1000,
      4 * kNumel / 1000);
}

TEST(Ckpt, ReshardAndDiffFitTogether) {
  const TemporaryFolder folder;
  const std::string saved = folder.path() / "saved";
  const std::string again = folder.path() / "again";
  make_checkpoints_of("odd", saved, 3, 2);
  const Answer resharded = ckpt({"reshard", saved, again, "--ranks", "2"});
  ASSERT_EQ(resharded.code, 0) << resharded.err;
  EXPECT_TRUE(has(resharded.out, again + "/save-000001-step-2"))
      << resharded.out;
  EXPECT_EQ(ckpt({"verify", again}).code, 0);

  const Answer equal = ckpt({"diff", saved, again});
  EXPECT_EQ(equal.code, 0) << equal.out << equal.err;
  EXPECT_TRUE(has(equal.out, "are equal, 0 other differences")) << equal.out;
  const Answer different = ckpt({"diff", saved + "/save-000001-step-1", again});
  EXPECT_EQ(different.code, 1);
  EXPECT_TRUE(has(different.out, "step: 1 and 2")) << different.out;
  EXPECT_TRUE(has(different.out, "parameter/first.weight: ")) << different.out;
}

// docs/formats/checkpoint.md has a program that reads them without libzero.
TEST(Ckpt, TheProgramInTheDocumentationReadsThem) {
  const TemporaryFolder folder;
  const Values values = make_checkpoints_of("odd", folder.path() / "saved", 3);
  const auto root = fs::path(__FILE__).parent_path() / ".." / "..";
  const std::string text = read_file(root / "docs/formats/checkpoint.md");
  const std::string mark = "```python\n";
  const size_t begin = text.find(mark);
  ASSERT_NE(begin, std::string::npos);
  const size_t end = text.find("```", begin + mark.size());
  const std::string program =
      text.substr(begin + mark.size(), end - begin - mark.size());
  for (const auto& [name, value] : values) {
    Job job(
        {"python3",
         "-c",
         program,
         folder.path() / "saved" / "save-000001-step-1",
         name});
    ASSERT_EQ(job.wait(), 0) << job.err();
    // All are contiguous but one, which is transposed.
    const at::Tensor in_memory =
        name == "transposed" ? value.t().contiguous() : value;
    std::ostringstream hex;
    const auto* bytes =
        static_cast<const unsigned char*>(in_memory.const_data_ptr());
    for (size_t i = 0; i < in_memory.nbytes(); ++i) {
      hex << std::hex << std::setw(2) << std::setfill('0') << int{bytes[i]};
    }
    EXPECT_TRUE(job.out().ends_with(" " + hex.str() + "\n")) << name;
    EXPECT_TRUE(has(job.out(), "F32 [")) << job.out();
  }
}

TEST(Ckpt, MistakesAreTold) {
  const TemporaryFolder folder;
  const std::string saved = folder.path() / "saved";
  make_checkpoints_of("odd", saved, 1);
  const std::string empty = folder.path() / "empty";
  fs::create_directory(empty);
  for (const Strings& arguments :
       {Strings{"list"}, {"inspect"}, {"verify"}, {"export", "-", ""}}) {
    for (const std::string& from : {empty, empty + "/no/such"}) {
      Strings call{arguments[0], from};
      if (arguments.size() > 1) {
        call.push_back(folder.path() / "out");
      }
      const Answer answer = ckpt(call);
      EXPECT_EQ(answer.code, 1);
      EXPECT_TRUE(has(answer.err, "there is no checkpoint in")) << answer.err;
    }
  }
  const auto expect_usage_error = [&](const Strings& call,
                                      const std::string& what) {
    const Answer answer = ckpt(call);
    EXPECT_EQ(answer.code, 2) << answer.out;
    EXPECT_TRUE(has(answer.err, what)) << answer.err;
  };
  expect_usage_error({}, "subcommand is required");
  expect_usage_error({"lst", saved}, "did you mean list?");
  expect_usage_error({"export", saved}, "OUT is required");
  expect_usage_error({"export", saved, saved}, "is there already");
  expect_usage_error({"reshard", saved, empty}, "--ranks is required");
  for (const char* ranks : {"0", "-1", "513", "two", ""}) {
    expect_usage_error({"reshard", saved, empty, "--ranks", ranks}, "--ranks");
  }
  for (const char* bytes : {"0", "-1", "5XB", "9999999999999GB"}) {
    expect_usage_error(
        {"export", saved, empty, "--max-shard-bytes", bytes},
        "--max-shard-bytes");
  }
  expect_usage_error(
      {"reshard", saved, saved + "/save-000001-step-1", "--ranks", "1"},
      "is a checkpoint itself");
  EXPECT_TRUE(fs::is_empty(empty));

  const fs::path manifest =
      fs::path(saved) / "save-000001-step-1" / "manifest.json";
  fs::resize_file(manifest, 100);
  for (const Strings& call :
       {Strings{"inspect", saved},
        {"export", saved, empty},
        {"diff", saved, saved}}) {
    const Answer answer = ckpt(call);
    EXPECT_EQ(answer.code, 1);
    EXPECT_EQ(lines_of(answer.err).size(), 1) << answer.err;
    EXPECT_TRUE(has(answer.err, "manifest.json")) << answer.err;
  }
}

} // namespace
} // namespace zero::test
