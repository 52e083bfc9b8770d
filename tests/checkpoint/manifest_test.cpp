// What a manifest says is what was written, or it is refused.
#include "checkpoint/manifest.h"

#include <gtest/gtest.h>
#include <zero/error.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/file_io.h"
#include "checkpoint/safetensors_types.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::checkpoint {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Every field has a value that it does not have by itself.
Manifest example_manifest() {
  Manifest manifest{
      .libzero_version = "1.2.3",
      .saved_at = "2026-11-18T03:00:00Z",
      .step = kMost,
      .stage = 3,
      .optimizer = "the program's own",
      .num_states = 2,
      .set_rates = {std::nullopt, 0.1, 0.0, 1e-300, 3.0},
      .parameters = {},
      .buffers = {{"mean", c10::ScalarType::Double, {}}},
      .shards = {{4096, 0}, {kMost, UINT64_MAX}, {1, 0x0123456789abcdef}},
      .sampler =
          SamplerState{
              .num_samples = 1000,
              .seed = UINT64_MAX,
              .shuffle = false,
              .position = 123'456'789'012},
      .notes =
          {{"", "no key"},
           {"checksum", "\"checksum\": \"0123456789abcdef\"\n}\n"},
           {"text", "\"quoted\"\n\t\\ \u00e4\u20ac"}},
      .configuration = R"({"optimizer":{"lr":0.1},"list":[1,2.5,null,true]})"};
  for (const auto& [type, name] : kSafetensorsTypes) {
    const bool is_first = manifest.parameters.empty();
    manifest.parameters.push_back(
        {.names = is_first ? std::vector<std::string>{"tied", "tied.too"}
                           : std::vector<std::string>{name},
         .dtype = type,
         .sizes = {2, 0, 3},
         .strides = {1, 2, kMost},
         .trained = is_first,
         .updates = is_first ? 17 : 0});
  }
  return manifest;
}

// As libzero would have written it.
std::string with_checksum(std::string text) {
  const std::string begin = ",\n \"checksum\": \"";
  text.resize(text.rfind(begin));
  return text + begin + base::checksum_text(base::checksum_of(text)) +
      "\"\n}\n";
}

// With one thing in the text that is another, and a checksum that fits.
std::string changed(const std::string& what, const std::string& into) {
  std::string text = example_manifest().to_json();
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return with_checksum(text.replace(at, what.size(), into));
}

TEST(Manifest, EveryFieldComesBack) {
  const Manifest written = example_manifest();
  const std::string text = written.to_json();
  const Manifest read = Manifest::from_json(text, "manifest.json");
  EXPECT_EQ(read.libzero_version, written.libzero_version);
  EXPECT_EQ(read.saved_at, written.saved_at);
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.stage, written.stage);
  EXPECT_EQ(read.optimizer, written.optimizer);
  EXPECT_EQ(read.num_states, written.num_states);
  EXPECT_EQ(read.set_rates, written.set_rates);
  EXPECT_EQ(read.notes, written.notes);
  EXPECT_EQ(
      nlohmann::ordered_json::parse(read.configuration),
      nlohmann::ordered_json::parse(written.configuration));
  ASSERT_TRUE(read.sampler);
  EXPECT_EQ(read.sampler->num_samples, written.sampler->num_samples);
  EXPECT_EQ(read.sampler->seed, written.sampler->seed);
  EXPECT_EQ(read.sampler->shuffle, written.sampler->shuffle);
  EXPECT_EQ(read.sampler->position, written.sampler->position);

  ASSERT_EQ(read.parameters.size(), written.parameters.size());
  for (size_t i = 0; i < read.parameters.size(); ++i) {
    const auto& found = read.parameters[i];
    const auto& expected = written.parameters[i];
    EXPECT_EQ(found.names, expected.names);
    EXPECT_EQ(found.dtype, expected.dtype);
    EXPECT_EQ(found.sizes, expected.sizes);
    EXPECT_EQ(found.strides, expected.strides);
    EXPECT_EQ(found.trained, expected.trained);
    EXPECT_EQ(found.updates, expected.updates);
  }
  ASSERT_EQ(read.buffers.size(), written.buffers.size());
  for (size_t i = 0; i < read.buffers.size(); ++i) {
    EXPECT_EQ(read.buffers[i].name, written.buffers[i].name);
    EXPECT_EQ(read.buffers[i].dtype, written.buffers[i].dtype);
    EXPECT_EQ(read.buffers[i].sizes, written.buffers[i].sizes);
  }
  ASSERT_EQ(read.shards.size(), written.shards.size());
  for (size_t i = 0; i < read.shards.size(); ++i) {
    EXPECT_EQ(read.shards[i].bytes, written.shards[i].bytes);
    EXPECT_EQ(read.shards[i].checksum, written.shards[i].checksum);
  }
  EXPECT_EQ(read.to_json(), text); // nothing that is not looked at above
}

TEST(Manifest, WhatIsNotThereStaysSo) {
  Manifest written = example_manifest();
  written.sampler.reset();
  written.notes.clear();
  written.set_rates.clear();
  written.parameters.clear();
  written.buffers.clear();
  const Manifest read = Manifest::from_json(written.to_json(), "it");
  EXPECT_FALSE(read.sampler);
  EXPECT_TRUE(read.notes.empty());
  EXPECT_TRUE(read.set_rates.empty());
  EXPECT_TRUE(read.parameters.empty());
  EXPECT_TRUE(read.buffers.empty());
}

TEST(Manifest, ABitThatChangedIsNoticed) {
  const std::string text = example_manifest().to_json();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(Manifest::from_json(damaged, "it"), CorruptionError) << i;
  }
  for (const size_t size : {size_t{0}, size_t{10}, text.size() - 1}) {
    EXPECT_THROW(
        Manifest::from_json(text.substr(0, size), "it"), CorruptionError)
        << size;
  }
  EXPECT_THROW(Manifest::from_json(text + "\n", "it"), CorruptionError);
}

// By somebody who knows how to compute the checksum.
TEST(Manifest, WhatCannotBeIsRefusedByName) {
  struct Case {
    std::string what;
    std::string into;
    std::string told;
  };
  for (const Case& each : std::vector<Case>{
           {"libzero checkpoint", "a checkpoint", "format is 'a checkpoint'"},
           {R"("stage": 3)", R"("stage": -1)", "-1 for 'stage'"},
           {R"("stage": 3)", R"("stage": "3")", "no right 'stage'"},
           {R"("optimizer": "the)", R"("optimiser": "the)", "'optimizer'"},
           {R"("dtype": "F16")", R"("dtype": "F17")", "unknown type 'F17'"},
           {R"("tied.too")", R"("tied")", "'tied' is there twice"},
           {R"("mean")", R"("tied")", "'tied' is there twice"},
           {R"("18446744073709551615")", R"("-1")", "wrong 'seed'"},
           {"0.1", "-0.1", "a learning rate"},
           {"0123456789abcdef\"\n  }", "x\"\n  }", "wrong 'checksum'"}}) {
    SCOPED_TRACE(each.into);
    const std::string text = changed(each.what, each.into);
    EXPECT_THROW(Manifest::from_json(text, "its/path"), CorruptionError);
    const std::string told =
        test::error_of([&] { Manifest::from_json(text, "its/path"); });
    EXPECT_TRUE(test::has(told, "'its/path' is not what libzero")) << told;
    EXPECT_TRUE(test::has(told, each.told)) << told;
    EXPECT_TRUE(test::has(told, "Fix: ")) << told;
  }
  Manifest nobody = example_manifest();
  nobody.shards.clear();
  EXPECT_THROW(Manifest::from_json(nobody.to_json(), "it"), CorruptionError);
}

TEST(Manifest, ANewerFormatNamesTheVersionThatReadsIt) {
  const std::string text = changed(R"("version": 1)", R"("version": 2)");
  EXPECT_THROW(Manifest::from_json(text, "it"), ConfigError);
  const std::string told =
      test::error_of([&] { Manifest::from_json(text, "it"); });
  EXPECT_TRUE(test::has(told, "is of version 2")) << told;
  EXPECT_TRUE(test::has(told, "Fix: use the libzero that wrote it, 1.2.3"))
      << told;
}

TEST(Manifest, AFolderWithoutOneIsDamaged) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(read_manifest(folder.path()), CorruptionError);
  EXPECT_THROW(read_manifest(folder.path() / "nowhere"), IoError);
  base::write_file(folder.path() / kManifestName, example_manifest().to_json());
  EXPECT_EQ(read_manifest(folder.path()).step, kMost);
}

TEST(Manifest, NamesOfFilesSortAsRanksDo) {
  EXPECT_EQ(shard_name(0), "rank-00000.safetensors");
  EXPECT_EQ(shard_name(12345), "rank-12345.safetensors");
  EXPECT_EQ(shard_name(123456), "rank-123456.safetensors");
}

} // namespace
} // namespace zero::checkpoint
