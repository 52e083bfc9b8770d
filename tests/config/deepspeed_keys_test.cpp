// Every key of DeepSpeed is accepted or refused on purpose, and documented.
#include "config/deepspeed_keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "config/mistakes.h"
#include "config/wording.h"

namespace zero::config {
namespace {

using KeyKind = DeepSpeedKey::Kind;

struct Table {
  std::string name;
  std::string before; // what stands around a key of the table
  std::string after;
  std::span<const DeepSpeedKey> keys;
};

std::vector<Table> tables() {
  return {
      {"top level", "{", "}", top_level_keys()},
      {"zero_optimization",
       "{\"zero_optimization\": {",
       "}}",
       zero_optimization_keys()},
      {"optimizer",
       "{\"optimizer\": {\"type\": \"Adam\", ",
       "}}",
       optimizer_keys()},
      {"adam",
       "{\"optimizer\": {\"type\": \"Adam\", \"params\": {",
       "}}}",
       adam_keys()},
      {"sgd",
       "{\"optimizer\": {\"type\": \"SGD\", \"params\": {",
       "}}}",
       sgd_keys()},
      {"scheduler",
       "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {",
       "}}}",
       scheduler_keys()},
  };
}

std::string config_with(
    const Table& table,
    const DeepSpeedKey& key,
    const std::string& value) {
  return table.before + "\"" + std::string(key.name) + "\": " + value +
      table.after;
}

std::string as_json(KeyKind kind, const std::string& value) {
  return kind == KeyKind::text ? "\"" + value + "\"" : value;
}

// A legal value, and one of the wrong type.
std::string legal_value(KeyKind kind) {
  switch (kind) {
    case KeyKind::boolean:
      return "true";
    case KeyKind::count:
    case KeyKind::integer:
      return "5e8";
    case KeyKind::text:
      return "\"text\"";
    case KeyKind::texts:
      return "[\"text\"]";
    default:
      return "{}";
  }
}

TEST(DeepSpeedKeys, WhatIsIgnoredTakesAnyLegalValueAndNoOther) {
  int num_keys = 0;
  for (const Table& table : tables()) {
    for (const DeepSpeedKey& key : table.keys) {
      const bool is_value = key.kind <= KeyKind::texts;
      if (!is_value || !key.off.empty()) {
        continue;
      }
      ++num_keys;
      for (const std::string& value :
           {legal_value(key.kind),
            std::string("null"),
            std::string("\"auto\"")}) {
        EXPECT_TRUE(has_no_mistake(config_with(table, key, value)));
      }
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, "{\"a\": 1}"), "got an object, expected"));
      const std::string other = key.kind == KeyKind::text ? "3" : "\"text\"";
      if (key.kind != KeyKind::texts) {
        EXPECT_TRUE(
            has_one_mistake(config_with(table, key, other), ", expected "));
      }
    }
  }
  EXPECT_GT(num_keys, 40);
}

TEST(DeepSpeedKeys, WhatAsksForSomethingIsAcceptedOnlyWhereItDoesNot) {
  int num_keys = 0;
  for (const Table& table : tables()) {
    for (const DeepSpeedKey& key : table.keys) {
      if (key.kind > KeyKind::anything || key.off.empty()) {
        continue;
      }
      ++num_keys;
      for (const std::string& value : split(key.off)) {
        EXPECT_TRUE(
            has_no_mistake(config_with(table, key, as_json(key.kind, value))));
      }
      std::string on = legal_value(key.kind);
      if (key.off == "true") {
        on = "false";
      }
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, on),
          "DeepSpeed's " + std::string(key.name) + " is not supported yet"));
    }
  }
  EXPECT_GT(num_keys, 20);
}

TEST(DeepSpeedKeys, SwitchedSectionsAreAcceptedWhileTheyAreOff) {
  int num_keys = 0;
  for (const Table& table : tables()) {
    for (const DeepSpeedKey& key : table.keys) {
      if (key.kind != KeyKind::switched) {
        continue;
      }
      ++num_keys;
      const bool is_text = key.off == "none";
      const std::string name = "\"" + std::string(key.switch_name) + "\": ";
      std::string off = "{" + name +
          as_json(is_text ? KeyKind::text : KeyKind::boolean,
                  std::string(key.off));
      for (const std::string& other : split(key.others)) {
        off += ", \"" + other + "\": 1";
      }
      EXPECT_TRUE(has_no_mistake(config_with(table, key, off + "}")));
      EXPECT_TRUE(has_no_mistake(config_with(table, key, "null")));
      if (!key.is_on_by_default) {
        EXPECT_TRUE(has_no_mistake(config_with(table, key, "{}")));
        EXPECT_TRUE(
            has_no_mistake(config_with(table, key, "{" + name + "\"auto\"}")));
      }
      EXPECT_TRUE(has_one_mistake(
          config_with(
              table, key, "{" + name + (is_text ? "\"cpu\"" : "true") + "}"),
          "DeepSpeed's " + std::string(key.name) + " is not supported yet"));
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, "{" + name + "[]}"), "expected"));
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, off + ", \"zzzzzzzz\": 1}"), "unknown key"));
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, "3"), "got 3, expected an object"));
    }
  }
  EXPECT_GT(num_keys, 15);
}

TEST(DeepSpeedKeys, RemovedKeysAreRefusedEvenIfTheyAreOff) {
  int num_keys = 0;
  for (const Table& table : tables()) {
    for (const DeepSpeedKey& key : table.keys) {
      if (key.kind != KeyKind::removed) {
        continue;
      }
      ++num_keys;
      EXPECT_TRUE(has_one_mistake(
          config_with(table, key, "{\"enabled\": false}"),
          "removed from DeepSpeed"));
    }
  }
  EXPECT_GT(num_keys, 10);
}

TEST(DeepSpeedKeys, SectionsWithRulesForEachKeyAreChecked) {
  EXPECT_TRUE(has_no_mistake(R"({
      "activation_checkpointing": {
        "partition_activations": false, "number_checkpoints": null},
      "aio": {"block_size": 1048576, "overlap_events": true},
      "checkpoint": {
        "tag_validation": "IGNORE", "parallel_write": {"pipeline_stage": false}},
      "timers": {"throughput": {"enabled": false}},
      "pipeline": {"stages": "auto"},
      "tensor_parallel": {"autotp_size": 0},
      "data_types": {
        "grad_accum_dtype": "fp32", "keep_in_fp32_modules": ["a"]}})"));
  EXPECT_TRUE(has_one_mistake(
      R"({"data_types": {"grad_accum_dtype": "bf16"}})",
      "data_types.grad_accum_dtype: DeepSpeed's grad_accum_dtype is not supp"));
  EXPECT_TRUE(has_one_mistake(
      R"({"checkpoint": {"parallel_write": {"pipeline_stage": true}}})",
      "checkpoint.parallel_write.pipeline_stage: "));
  EXPECT_TRUE(has_one_mistake(
      R"({"timers": {"throughput": {"enable": true}}})",
      "did you mean enabled"));
  EXPECT_TRUE(has_one_mistake(
      R"({"tensor_parallel": {"autotp_size": 2}})", "expected 0 or 1"));
}

// The file that most people start from: Hugging Face's, for stage 2.
TEST(DeepSpeedKeys, AFileForHuggingFaceNeedsOnlyWhatItsTrainerWouldFillIn) {
  const std::string message = mistakes_of(R"({
    "fp16": {
        "enabled": "auto",
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "initial_scale_power": 16,
        "hysteresis": 2,
        "min_loss_scale": 1
    },
    "optimizer": {
        "type": "AdamW",
        "params": {
            "lr": "auto",
            "betas": [0.9, 0.999],
            "eps": 1e-8,
            "weight_decay": 0
        }
    },
    "zero_optimization": {
        "stage": 2,
        "offload_optimizer": {"device": "none", "pin_memory": true},
        "allgather_partitions": true,
        "allgather_bucket_size": 2e8,
        "overlap_comm": true,
        "reduce_scatter": true,
        "reduce_bucket_size": 2e8,
        "contiguous_gradients": true
    },
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": 1.0,
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": false
})");
  EXPECT_EQ(
      message,
      "zero.json:13: optimizer.params.lr: \"auto\" cannot be worked out here, "
      "expected a number. Fix: write the value");
}

void collect_names(
    std::span<const DeepSpeedKey> keys,
    std::set<std::string>& names) {
  for (const DeepSpeedKey& key : keys) {
    names.emplace(key.name);
    collect_names(key.keys, names);
  }
}

TEST(DeepSpeedKeys, EveryKeyIsDocumented) {
  const std::filesystem::path page =
      std::filesystem::path(__FILE__).parent_path() / "../../docs" /
      "configuration.md";
  std::stringstream text;
  text << std::ifstream(page).rdbuf();
  ASSERT_FALSE(text.str().empty()) << page;
  std::set<std::string> names;
  for (const Table& table : tables()) {
    collect_names(table.keys, names);
  }
  for (const std::string& name : names) {
    EXPECT_NE(text.str().find("`" + name + "`"), std::string::npos) << name;
  }
}

} // namespace
} // namespace zero::config
