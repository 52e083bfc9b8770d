// `zero ckpt`: what is in checkpoints, whether they are whole, and what else
// can be made of them.
#include <c10/util/ArrayRef.h>

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/quantity.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/diff.h"
#include "checkpoint/export_folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reshard.h"
#include "checkpoint/safetensors_types.h"
#include "checkpoint/saved_tensors.h"
#include "cli/command_line.h"
#include "cli/commands.h"

namespace zero::cli {

namespace {

using checkpoint::CheckpointReader;
using checkpoint::FoundCheckpoint;
using checkpoint::Manifest;
using nlohmann::ordered_json;

constexpr const char* kCkptFooter = R"(Examples:
  zero ckpt list runs/gpt-1/checkpoints
  zero ckpt export runs/gpt-1/checkpoints exported

DIR is a folder of checkpoints, of which the newest is meant, or a checkpoint.)";

constexpr const char* kListFooter =
    R"(Only sizes and headers are looked at: zero ckpt verify reads everything.)";

constexpr const char* kVerifyFooter =
    R"(Exit code: 0 if all are as they were saved, else 1.)";

constexpr const char* kExportFooter = R"(Example:
  zero ckpt export runs/gpt-1/checkpoints exported

OUT gets model.safetensors, or several files and model.safetensors.index.json if
the tensors have more than --max-shard-bytes. A tied parameter is there once. If
the checkpoint is of zero train, config.json and the tokenizer are copied along.
A model of any size needs the same little memory.)";

constexpr const char* kReshardFooter = R"(Example:
  zero ckpt reshard runs/gpt-1/checkpoints resharded --ranks 8

Training does not need this: a checkpoint is loaded by any number of ranks. It is
for who wants files of another size.)";

constexpr const char* kDiffFooter = R"(Exit code: 0 if they are equal, else 1.

They may have been saved by different numbers of ranks. Step, configuration,
optimizer, sampler and notes are compared, then every tensor, bit by bit. When
they were saved, and by which version, is not.)";

// The newest first. Throws: IoError if there is none.
std::vector<FoundCheckpoint> all_in(const std::string& folder) {
  auto found = checkpoint::find_checkpoints(folder);
  if (found.empty()) {
    throw IoError(c10::str(
        "there is no checkpoint in '",
        folder,
        "'. Fix: name a folder that has one, or is one"));
  }
  return found;
}

std::string newest_in(const std::string& folder) {
  return all_in(folder).front().path;
}

int64_t bytes_of(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const auto& shard : manifest.shards) {
    bytes += shard.bytes;
  }
  return bytes;
}

// ---- list -----------------------------------------------------------------

struct ListedCheckpoint {
  FoundCheckpoint found;
  std::optional<Manifest> manifest; // if it can be read
  std::string problem; // empty: none
};

ListedCheckpoint look_at(const FoundCheckpoint& found) {
  ListedCheckpoint listed{found, std::nullopt, ""};
  try {
    listed.manifest = checkpoint::read_manifest(found.path);
    listed.found.step = listed.manifest->step;
    const CheckpointReader reader(found.path);
  } catch (const Error& error) {
    listed.problem = error.what();
  }
  return listed;
}

ordered_json json_of(const ListedCheckpoint& listed) {
  ordered_json line{
      {"path", listed.found.path},
      {"number", listed.found.number},
      {"step", listed.found.step}};
  if (listed.manifest) {
    line["ranks"] = listed.manifest->shards.size();
    line["stage"] = listed.manifest->stage;
    line["bytes"] = bytes_of(*listed.manifest);
    line["saved_at"] = listed.manifest->saved_at;
  }
  line["whole"] = listed.problem.empty();
  if (!listed.problem.empty()) {
    line["problem"] = listed.problem;
  }
  return line;
}

void print_row(
    const std::string& number,
    const std::string& step,
    const std::string& ranks,
    const std::string& stage,
    const std::string& size,
    const std::string& saved_at,
    const std::string& state) {
  std::cout << std::right << std::setw(6) << number << std::setw(12) << step
            << std::setw(7) << ranks << std::setw(7) << stage << std::setw(10)
            << size << "  " << std::left << std::setw(22) << saved_at << state
            << '\n';
}

void print_row(const ListedCheckpoint& listed) {
  const auto& [found, manifest, problem] = listed;
  const std::string state = problem.empty() ? "whole" : "not whole: " + problem;
  const std::string number = std::to_string(found.number);
  const std::string step = std::to_string(found.step);
  if (!manifest) {
    print_row(number, step, "-", "-", "-", "-", state);
    return;
  }
  print_row(
      number,
      step,
      std::to_string(manifest->shards.size()),
      std::to_string(manifest->stage),
      base::in_bytes(bytes_of(*manifest)),
      manifest->saved_at,
      state);
}

void list(const std::string& folder, bool json) {
  const auto found = all_in(folder);
  if (!json) {
    print_row("number", "step", "ranks", "stage", "size", "saved at", "state");
  }
  for (const auto& each : found) {
    const auto listed = look_at(each);
    if (json) {
      std::cout << json_of(listed).dump() << std::endl;
    } else {
      print_row(listed);
    }
  }
}

// ---- inspect --------------------------------------------------------------

void print_fact(const char* name, const std::string& value) {
  std::cout << std::left << std::setw(12) << name << value << '\n';
}

std::string describe(const SamplerState& sampler) {
  return c10::str(
      "at ",
      base::grouped(sampler.position),
      ", of ",
      base::counted(sampler.num_samples, "sample"),
      sampler.shuffle ? ", shuffled, seed " : ", in order, seed ",
      sampler.seed);
}

std::string describe(const checkpoint::SavedParameter& parameter) {
  std::string text = c10::str(
      parameter.names.front(),
      "  ",
      checkpoint::type_name(parameter.dtype),
      " ",
      c10::IntArrayRef(parameter.sizes),
      "  ",
      parameter.trained ? base::counted(parameter.updates, "update")
                        : "frozen");
  for (size_t i = 1; i < parameter.names.size(); ++i) {
    text += c10::str(i == 1 ? ", also " : " and ", parameter.names[i]);
  }
  return text;
}

void print_manifest(const std::string& path, const Manifest& manifest) {
  print_fact("path", path);
  print_fact(
      "saved", manifest.saved_at + " by libzero " + manifest.libzero_version);
  print_fact("step", base::grouped(manifest.step));
  print_fact(
      "ranks",
      c10::str(
          manifest.shards.size(),
          " at stage ",
          manifest.stage,
          ", ",
          base::in_bytes(bytes_of(manifest))));
  print_fact(
      "optimizer",
      c10::str(
          manifest.optimizer,
          ", ",
          base::counted(manifest.num_states, "tensor"),
          " of state for each parameter"));
  for (size_t group = 0; group < manifest.set_rates.size(); ++group) {
    if (manifest.set_rates[group]) {
      print_fact(
          "set_lr()",
          c10::str(*manifest.set_rates[group], " for group ", group));
    }
  }
  if (manifest.sampler) {
    print_fact("sampler", describe(*manifest.sampler));
  }
  for (const auto& [name, value] : manifest.notes) {
    // As JSON has it: it may be of several lines.
    print_fact("note", name + " = " + ordered_json(value).dump());
  }
  print_fact("parameters", std::to_string(manifest.parameters.size()));
  for (const auto& parameter : manifest.parameters) {
    std::cout << "  " << describe(parameter) << '\n';
  }
  print_fact("buffers", std::to_string(manifest.buffers.size()));
  for (const auto& buffer : manifest.buffers) {
    std::cout << "  " << buffer.name << "  "
              << checkpoint::type_name(buffer.dtype) << " "
              << c10::IntArrayRef(buffer.sizes) << '\n';
  }
}

void inspect(const std::string& folder, bool json) {
  const std::string path = newest_in(folder);
  const Manifest manifest = checkpoint::read_manifest(path);
  if (json) {
    ordered_json facts{{"path", path}};
    facts.update(ordered_json::parse(manifest.to_json()));
    facts.erase("checksum"); // of the text that it was
    std::cout << facts.dump(1) << '\n';
  } else {
    print_manifest(path, manifest);
  }
}

// ---- the others -----------------------------------------------------------

int verify(const std::string& folder) {
  bool all_whole = true;
  for (const auto& found : all_in(folder)) {
    try {
      CheckpointReader reader(found.path);
      reader.verify();
      std::cout << "whole      " << found.path << ", "
                << base::in_bytes(bytes_of(reader.manifest())) << std::endl;
    } catch (const Error& error) {
      all_whole = false;
      std::cout << "not whole  " << found.path << ": " << error.what()
                << std::endl;
    }
  }
  return all_whole ? 0 : 1;
}

void export_to(
    const std::string& folder,
    const std::string& out,
    uint64_t max_bytes) {
  CheckpointReader reader(newest_in(folder));
  const std::string files = checkpoint::model_folder_of(reader.folder());
  const auto names = checkpoint::export_folder(
      reader,
      out,
      {.max_file_bytes = static_cast<int64_t>(max_bytes),
       .model_folder = files});
  std::cout << "exported " << reader.folder() << " to " << out << ": "
            << (names.size() == 1 ? names.front()
                                  : std::to_string(names.size()) + " files")
            << (files.empty() ? "" : ", with the other files of " + files)
            << '\n';
}

void reshard_to(
    const std::string& folder,
    const std::string& out,
    int num_ranks) {
  CheckpointReader reader(newest_in(folder));
  const std::string path = checkpoint::reshard(reader, out, num_ranks);
  std::cout << "resharded " << reader.folder() << " to " << path << '\n';
}

int diff_of(const std::string& a, const std::string& b) {
  CheckpointReader reader_a(newest_in(a));
  CheckpointReader reader_b(newest_in(b));
  const auto result =
      checkpoint::diff(reader_a, reader_b, [](const std::string& line) {
        std::cout << line << '\n';
      });
  std::cout << base::grouped(result.num_equal) << " of "
            << base::counted(result.num_tensors, "tensor")
            << " in both are equal, "
            << base::counted(result.num_facts, "other difference") << '\n';
  return result.is_equal() ? 0 : 1;
}

// CLI11 multiplies what is larger than an int64_t around.
std::string check_file_bytes(const std::string& text) {
  const double bytes = std::strtod(text.c_str(), nullptr);
  return bytes >= 1 && bytes <= 1e18
      ? ""
      : c10::str("expected a size like 500MB, got \"", text, "\"");
}

std::string check_num_ranks(const std::string& text) {
  char* end = nullptr;
  const long ranks = std::strtol(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && ranks >= 1 &&
          ranks <= checkpoint::kMaxReshardRanks
      ? ""
      : c10::str(
            "expected 1 to ",
            checkpoint::kMaxReshardRanks,
            ", got \"",
            text,
            "\"");
}

struct CkptArguments {
  std::string folder;
  std::string other; // OUT or B
  bool json = false;
  uint64_t max_bytes = 5'000'000'000;
  int num_ranks = 1;
};

constexpr const char* kFolderHelp = "A folder of checkpoints, or a checkpoint";

} // namespace

void add_ckpt_command(CLI::App& app, int& exit_code) {
  auto* ckpt = app.add_subcommand("ckpt", "Look at checkpoints, convert them");
  ckpt->require_subcommand(1);
  ckpt->footer(kCkptFooter);
  auto arguments = std::make_shared<CkptArguments>();
  const auto add = [&](const char* name, const char* what, const char* footer) {
    auto* command = ckpt->add_subcommand(name, what);
    command->footer(footer);
    return command;
  };
  const auto add_folder = [&](CLI::App* command) {
    command->add_option("DIR", arguments->folder, kFolderHelp)
        ->required()
        ->check(not_empty());
  };
  const auto add_out = [&](CLI::App* command, const char* what) {
    command->add_option("OUT", arguments->other, what)
        ->required()
        ->check(not_empty());
  };

  auto* command = add("list", "Show which checkpoints there are", kListFooter);
  add_folder(command);
  command->add_flag("--json", arguments->json, "Print a JSON object for each");
  command->callback([arguments] { list(arguments->folder, arguments->json); });

  command = add("inspect", "Show what a checkpoint is of", kCkptFooter);
  add_folder(command);
  command->add_flag(
      "--json", arguments->json, "Print all, with the configuration, as JSON");
  command->callback(
      [arguments] { inspect(arguments->folder, arguments->json); });

  command =
      add("verify", "Read everything, say what is damaged", kVerifyFooter);
  add_folder(command);
  command->callback(
      [arguments, &exit_code] { exit_code = verify(arguments->folder); });

  command = add("export", "Make a Hugging Face folder of one", kExportFooter);
  add_folder(command);
  add_out(command, "A folder that is not there, or empty");
  command
      ->add_option(
          "--max-shard-bytes",
          arguments->max_bytes,
          "At most so much in a file, 5GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(check_file_bytes)
      ->type_name("SIZE");
  command->callback([arguments] {
    export_to(arguments->folder, arguments->other, arguments->max_bytes);
  });

  command = add("reshard", "Write one as other ranks would", kReshardFooter);
  add_folder(command);
  add_out(command, "A folder for checkpoints, which gets a new one");
  command->add_option("--ranks", arguments->num_ranks, "How many")
      ->required()
      ->check(check_num_ranks)
      ->type_name("N");
  command->callback([arguments] {
    reshard_to(arguments->folder, arguments->other, arguments->num_ranks);
  });

  command = add("diff", "Say in what two of them differ", kDiffFooter);
  command->add_option("A", arguments->folder, kFolderHelp)
      ->required()
      ->check(not_empty());
  command->add_option("B", arguments->other, "Another one")
      ->required()
      ->check(not_empty());
  command->callback([arguments, &exit_code] {
    exit_code = diff_of(arguments->folder, arguments->other);
  });
}

} // namespace zero::cli
