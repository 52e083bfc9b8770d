// What shards say of themselves is not believed, even if checksums are right.
// tests/fuzz/checkpoint.cpp tries more of it.
#include "checkpoint/checkpoint_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/checksum.h"
#include "base/file_io.h"
#include "engine/error_of.h"
#include "launch/job.h"

namespace zero::test {
namespace {

using checkpoint::CheckpointReader;
using checkpoint::Manifest;
using checkpoint::ShardTensor;

Manifest empty_manifest() {
  Manifest manifest;
  manifest.configuration = "{}";
  return manifest;
}

void write_manifest(const std::filesystem::path& folder, Manifest manifest) {
  base::write_file(folder / checkpoint::kManifestName, manifest.to_json());
}

std::string opened(const std::filesystem::path& folder) {
  return error_of([&] { CheckpointReader reader(folder); });
}

// Four floats as a buffer, in one shard or two, with any shape.
TEST(CheckpointReader, ABufferIsInOnePiece) {
  const std::vector<float> data{1, 2, 3, 4};
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
  const auto part = [&](int64_t begin, int64_t end) {
    return ShardTensor{
        checkpoint::buffer_key("b"),
        c10::ScalarType::Float,
        {4},
        {{{begin, end}, bytes + 4 * begin}}};
  };
  const auto save = [&](const std::filesystem::path& folder,
                        const std::vector<ShardTensor>& tensors,
                        const std::vector<int64_t>& sizes) {
    std::filesystem::create_directory(folder);
    Manifest manifest = empty_manifest();
    manifest.buffers.push_back({"b", c10::ScalarType::Float, sizes});
    for (size_t i = 0; i < tensors.size(); ++i) {
      manifest.shards.push_back(checkpoint::write_shard(
          folder / checkpoint::shard_name(static_cast<int>(i)), {tensors[i]}));
    }
    write_manifest(folder, manifest);
  };
  const TemporaryFolder folder;
  save(folder.path() / "whole", {part(0, 4)}, {4});
  EXPECT_EQ(opened(folder.path() / "whole"), "no error");
  save(folder.path() / "two", {part(0, 1), part(1, 4)}, {4});
  EXPECT_TRUE(has(opened(folder.path() / "two"), "not in one piece"));
  save(folder.path() / "shape", {part(0, 4)}, {2, 2});
  EXPECT_TRUE(has(opened(folder.path() / "shape"), "not in one piece"));
}

// A comment is no JSON, and a list is no configuration.
TEST(ManifestFromJson, OnlyWhatLibzeroWritesIsAccepted) {
  Manifest manifest = empty_manifest();
  manifest.shards.push_back({100, 7});
  const auto refused =
      [](std::string text, const std::string& from, const std::string& to) {
        const size_t place = text.find(from);
        EXPECT_NE(place, std::string::npos);
        text.replace(place, from.size(), to);
        const std::string tail = ",\n \"checksum\": \"";
        text.resize(text.rfind(tail));
        text += tail + base::checksum_text(base::checksum_of(text)) + "\"\n}\n";
        try {
          Manifest::from_json(text, "input");
        } catch (const CorruptionError&) {
          return true;
        }
        return false;
      };
  const std::string text = manifest.to_json();
  EXPECT_FALSE(refused(text, "\"step\": 0", "\"step\": 1"));
  EXPECT_TRUE(refused(text, "\"step\"", "/* one */ \"step\""));
  EXPECT_TRUE(refused(text, "\"configuration\": {}", "\"configuration\": []"));
  EXPECT_TRUE(refused(text, "\"configuration\": {}", "\"other\": {}"));
}

} // namespace
} // namespace zero::test
