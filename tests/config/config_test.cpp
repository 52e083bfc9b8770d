// Files are read, and no text breaks the reader.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zero/config.h>
#include <zero/error.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "config/mistakes.h"

namespace zero::config {
namespace {

constexpr const char* kComplete = R"({
  // As long as configurations get.
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": 2,
  "gradient_clipping": 1.0,
  "prescale_gradients": false,
  "gradient_predivide_factor": 1.0,
  "steps_per_print": 10,
  "wall_clock_breakdown": false,
  "fp16": {"enabled": false, "loss_scale": 0},
  "bf16": {"enabled": false},
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
      "torch_adam": false
    }
  },
  "scheduler": {
    "type": "WarmupCosineLR",
    "params": {
      "total_num_steps": 1000, "warmup_num_steps": 100, "cos_min_ratio": 0.1,
      "warmup_type": "linear"
    }
  },
  "zero_optimization": {
    "stage": 3,
    "reduce_bucket_size": 5e8,
    "stage3_prefetch_bucket_size": 50000000,
    "stage3_param_persistence_threshold": "auto",
    "overlap_comm": true,
    "contiguous_gradients": true,
    "offload_optimizer": {"device": "none"},
    "leaf_module": {"names": ["a"]}
  },
  "libzero": {
    "shared_memory": true,
    "gather_budget": "12.5%",
    "parameter_groups": [{"match": "*.bias", "weight_decay": 0}],
    "clip_norm_type": "inf"
  },
  "model": {"layers": [1, 2, {"a": null}]}
})";

// A file that goes away with the test.
class File {
 public:
  explicit File(const std::string& text) {
    path_ = std::filesystem::temp_directory_path() / "zero_config_XXXXXX";
    const int fd = ::mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~File() {
    std::filesystem::remove(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const {
    return path_;
  }

 private:
  std::string path_;
};

TEST(Config, AFileIsRead) {
  const File file(kComplete);
  const Config config = Config::from_file(file.path());
  EXPECT_EQ(config.train_batch_size, 64);
  EXPECT_EQ(config.train_micro_batch_size_per_gpu, std::nullopt);
  EXPECT_EQ(config.gradient_accumulation_steps, 2);
  EXPECT_EQ(config.steps_per_print, 10);
  EXPECT_EQ(config.optimizer.betas[1], 0.95);
  EXPECT_EQ(config.scheduler.total_num_steps, 1000);
  EXPECT_EQ(config.zero_optimization.stage, 3);
  EXPECT_EQ(config.libzero.gather_budget.share, 0.125);
  EXPECT_EQ(config.batch_sizes(4).micro, 8);
}

TEST(Config, AnEmptyObjectIsTheDefaults) {
  EXPECT_EQ(Config::from_json("{}").to_json(), Config().to_json());
}

TEST(Config, MessagesNameTheFile) {
  const File file("{\n\"stage\": 1\n}");
  try {
    Config::from_file(file.path());
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(mentions(error.what(), file.path() + ":2: stage: "));
  }
}

TEST(Config, AFileThatCannotBeReadIsNamedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> reasons{
      {"/nonexistent/zero.json", "errno"},
      {"", "errno"},
      {"/tmp", "it is a folder"},
      {"/dev/zero", "no regular file"}};
  for (const auto& [path, reason] : reasons) {
    try {
      Config::from_file(path);
      ADD_FAILURE() << path;
    } catch (const IoError& error) {
      EXPECT_TRUE(mentions(error.what(), path));
      EXPECT_TRUE(mentions(error.what(), reason));
    }
  }
}

TEST(Config, AnEmptyFileIsRefused) {
  const File file("");
  EXPECT_THROW(Config::from_file(file.path()), ConfigError);
}

TEST(Config, WindowsFilesAndByteOrderMarksAreRead) {
  std::string text = "\xEF\xBB\xBF";
  for (const char* at = kComplete; *at != '\0'; ++at) {
    text += *at == '\n' ? "\r\n" : std::string(1, *at);
  }
  EXPECT_EQ(
      Config::from_json(text).to_json(),
      Config::from_json(kComplete).to_json());
  EXPECT_TRUE(has_one_mistake(
      "\xEF\xBB\xBF{\r\n\r\n\"stage\": 1}", "zero.json:3: stage"));
}

TEST(Config, TheRootIsAnObject) {
  for (const char* text : {"[]", "3", "null", "true", "\"text\""}) {
    EXPECT_TRUE(has_one_mistake(text, "expected an object"));
  }
}

TEST(Config, TopLevelValuesOfTheWrongTypeAreRefused) {
  EXPECT_TRUE(has_one_mistake(
      R"({"train_batch_size": 1.5})", "got 1.5, expected a whole number"));
  EXPECT_TRUE(has_one_mistake(
      R"({"train_batch_size": true})", "got true, expected a whole number"));
  EXPECT_TRUE(has_one_mistake(R"({"gradient_clipping": true})", "a number"));
  EXPECT_TRUE(has_one_mistake(R"({"gradient_clipping": null})", "a number"));
  EXPECT_TRUE(has_one_mistake(R"({"gradient_clipping": "auto"})", "auto"));
  EXPECT_TRUE(has_one_mistake(R"({"gradient_clipping": -1})", "at least 0"));
  EXPECT_TRUE(has_one_mistake(R"({"prescale_gradients": 1})", "true or false"));
  EXPECT_TRUE(
      has_one_mistake(R"({"gradient_predivide_factor": 0})", "above 0"));
  EXPECT_TRUE(has_one_mistake(R"({"steps_per_print": 0})", "at least 1"));
}

TEST(Config, HugeNumbersAreRefusedAndNotRoundedOrWrapped) {
  EXPECT_TRUE(has_one_mistake(
      R"({"train_batch_size": 18446744073709551617})", "of 64 bits"));
  EXPECT_TRUE(has_one_mistake(
      R"({"train_batch_size": 9223372036854775808})", "of 64 bits"));
  EXPECT_TRUE(has_one_mistake(R"({"train_batch_size": 1e999})", "overflow"));
  EXPECT_EQ(
      Config::from_json(R"({"train_batch_size": 9223372036854775807})")
          .train_batch_size,
      9223372036854775807);
}

TEST(Config, BinaryGarbageIsRefused) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string text(random() % 200, '\0');
    for (char& byte : text) {
      byte = static_cast<char>(random());
    }
    EXPECT_THROW(Config::from_json(text), ConfigError);
  }
}

std::string mutated(std::string text, std::mt19937& random) {
  constexpr const char* kPieces[] = {
      "{",
      "}",
      "[",
      "]",
      "\"",
      ":",
      ",",
      "null",
      "true",
      "-1",
      "1e308",
      "1e-9",
      "\"auto\"",
      "\\u0000",
      "\n",
      "/*",
      "//",
      "\xff",
      "99999999999999999999",
      "\"stage\":",
      "{}",
      "[[[["};
  const int num_changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < num_changes && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    const size_t length = random() % 12;
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 3:
        text.replace(at, length, kPieces[random() % std::size(kPieces)]);
        break;
      default:
        text.insert(random() % text.size(), text.substr(at, length * 4));
    }
  }
  return text;
}

TEST(Config, MutatedFilesAreReadOrRefusedButNeverBreakTheReader) {
  const char* seed_text = std::getenv("ZERO_TEST_SEED");
  const unsigned seed = seed_text == nullptr ? 1 : std::atoi(seed_text);
  std::mt19937 random(seed);
  int num_read = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = mutated(kComplete, random);
    try {
      const Config config = Config::from_json(text);
      // What was accepted makes sense, and can be written and read again.
      const std::string written = config.to_json();
      ASSERT_EQ(Config::from_json(written).to_json(), written);
      ++num_read;
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()), "");
    }
  }
  // Both happen often enough to mean something.
  EXPECT_GT(num_read, 200) << "seed " << seed;
  EXPECT_LT(num_read, 19'000) << "seed " << seed;
}

} // namespace
} // namespace zero::config
