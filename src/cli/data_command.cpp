// `zero data`: makes tokens of text, once, for runs that train on them.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "data/choose_tokenizer.h"
#include "data/token_writer.h"
#include "data/tokenizer_folder.h"
#include "report/progress.h"

namespace zero::cli {

namespace {

constexpr const char* kDataFooter = R"(Example:
  zero data books.txt --out data/books --tokenizer gpt2 --vocab vocab.json \
    --merges merges.txt

DIR gets train.bin and val.bin, which "data": {"type": "tokens"} of zero train
reads, and the tokenizer. The end of the text is for evaluation. The text may be
larger than memory, except with characters, which have to be known first.)";

struct DataArguments {
  std::string text;
  std::string out;
  std::string tokenizer_name = "character";
  data::TokenizerChoice tokenizer;
  std::string format = "nanogpt";
  bool overwrite = false;
  double validation_share = 0.1;
};

const std::map<std::string, data::TokenizerKind> kTokenizerNames{
    {"character", data::TokenizerKind::character},
    {"byte", data::TokenizerKind::byte},
    {"gpt2", data::TokenizerKind::gpt2}};

std::unique_ptr<data::Tokenizer> make_data_tokenizer(
    const DataArguments& arguments) {
  const auto& [kind, vocab, merges] = arguments.tokenizer;
  const bool is_gpt2 = kind == data::TokenizerKind::gpt2;
  if (is_gpt2 && (!vocab || !merges)) {
    throw ConfigError(
        "--tokenizer gpt2 needs its two files. Fix: add --vocab and --merges, "
        "the paths of vocab.json and merges.txt");
  }
  if (!is_gpt2 && (vocab || merges)) {
    throw ConfigError(
        "--vocab and --merges are the files of GPT-2's tokenizer. Fix: add "
        "--tokenizer gpt2, or leave them out");
  }
  return data::choose_tokenizer(
      arguments.tokenizer,
      kind == data::TokenizerKind::character
          ? base::read_file(arguments.text, "the text " + arguments.text)
          : "");
}

// Encodes the text piece by piece, each as long as the tokens are those of the
// whole.
class Encoder {
 public:
  Encoder(const std::string& path, const data::Tokenizer& tokenizer)
      : path_(path),
        file_(path, std::ios::binary),
        tokenizer_(tokenizer),
        progress_(STDOUT_FILENO, "byte"),
        size_(static_cast<int64_t>(std::filesystem::file_size(path))),
        start_(base::Clock::now()) {}

  // Up to so many bytes of the text from its beginning.
  void encode(int64_t until, data::TokenWriter& writer) {
    std::string pending;
    while (read_ < until) {
      const auto count = std::min<int64_t>(kPiece, until - read_);
      const size_t filled = pending.size();
      pending.resize(filled + static_cast<size_t>(count));
      if (!file_.read(pending.data() + filled, count)) {
        throw IoError(c10::str("cannot read '", path_, "' to its end"));
      }
      read_ += count;
      const size_t ready =
          read_ < until ? tokenizer_.settled_prefix(pending) : pending.size();
      writer.add(tokenizer_.encode(std::string_view(pending).substr(0, ready)));
      pending.erase(0, ready);
      progress_.bar(read_, size_, base::seconds_since(start_));
    }
    writer.commit();
  }

  void say(const std::string& line) {
    progress_.line(line);
  }

  int64_t size() const {
    return size_;
  }

  // The first place from there on where a character begins.
  int64_t character_from(int64_t place) {
    constexpr int kContinuation = 0x80; // of a character of UTF-8: 10xxxxxx
    file_.seekg(place);
    for (int byte = file_.get(); byte >= 0 && (byte & 0xC0) == kContinuation;
         byte = file_.get()) {
      ++place;
    }
    file_.clear(); // of the end of the file
    file_.seekg(0);
    return place;
  }

 private:
  static constexpr int64_t kPiece = int64_t{4} << 20;

  std::string path_;
  std::ifstream file_;
  const data::Tokenizer& tokenizer_;
  report::Progress progress_;
  int64_t size_;
  int64_t read_ = 0;
  base::TimePoint start_;
};

void make_tokens(const DataArguments& arguments) {
  if (!std::filesystem::is_regular_file(arguments.text)) {
    throw IoError(c10::str(
        "there is no text file '",
        arguments.text,
        "'. Fix: give the path of one"));
  }
  if (std::filesystem::file_size(arguments.text) == 0) {
    throw ConfigError(c10::str(
        "the text '",
        arguments.text,
        "' is empty. Fix: give a file with text"));
  }
  const std::string train_path = arguments.out + "/train.bin";
  const std::string val_path = arguments.out + "/val.bin";
  for (const std::string& path : {train_path, val_path}) {
    std::error_code ignored; // it is not there
    if (std::filesystem::equivalent(path, arguments.text, ignored)) {
      throw ConfigError(c10::str(
          "the text '",
          path,
          "' would be replaced by its own tokens. Fix: name another folder "
          "with --out"));
    }
    if (!arguments.overwrite && std::filesystem::exists(path)) {
      throw ConfigError(c10::str(
          "'",
          path,
          "' is there already. Fix: name another folder with --out, or add "
          "--overwrite to replace it"));
    }
  }
  if (!arguments.overwrite && data::has_tokenizer(arguments.out)) {
    throw ConfigError(c10::str(
        "'",
        arguments.out,
        "' has a tokenizer already. Fix: name another folder with --out, or "
        "add --overwrite to replace it"));
  }
  const auto format = arguments.format == "llmc" ? data::TokenFormat::llmc
                                                 : data::TokenFormat::nanogpt;
  const auto tokenizer = make_data_tokenizer(arguments);
  base::make_folders(arguments.out);
  Encoder encoder(arguments.text, *tokenizer);
  const int64_t cut = encoder.character_from(std::llround(
      static_cast<double>(encoder.size()) * (1 - arguments.validation_share)));
  if (cut == 0) {
    throw ConfigError(c10::str(
        "--validation-share ",
        arguments.validation_share,
        " leaves nothing of '",
        arguments.text,
        "' to train on. Fix: lower it, or give more text"));
  }
  const auto write = [&](const std::string& path, int64_t until) {
    data::TokenWriter writer(path, format, tokenizer->vocabulary());
    encoder.encode(until, writer);
    encoder.say(
        c10::str(path, ": ", base::counted(writer.num_tokens(), "token")));
  };
  // What is from another text goes before anything of this one is there.
  data::remove_tokenizer(arguments.out);
  std::filesystem::remove(train_path);
  std::filesystem::remove(val_path);
  write(train_path, cut);
  if (cut < encoder.size()) {
    write(val_path, encoder.size());
  }
  data::write_tokenizer(*tokenizer, arguments.out);
  encoder.say(c10::str(
      "vocabulary: ",
      base::counted(tokenizer->vocabulary(), "token"),
      " (\"vocab_size\" of the model)"));
}

} // namespace

void add_data_command(CLI::App& app) {
  auto* command = app.add_subcommand("data", "Make tokens of a text");
  auto arguments = std::make_shared<DataArguments>();
  command->add_option("TEXT", arguments->text, "A text file")->required();
  command->add_option("--out", arguments->out, "The folder for the tokens")
      ->type_name("DIR")
      ->required()
      ->check(not_empty());
  command
      ->add_option(
          "--tokenizer",
          arguments->tokenizer_name,
          "character (the default), byte or gpt2")
      ->type_name("NAME")
      ->check(CLI::IsMember({"character", "byte", "gpt2"}));
  command
      ->add_option("--vocab", arguments->tokenizer.vocab, "GPT-2's vocab.json")
      ->type_name("FILE");
  command
      ->add_option(
          "--merges", arguments->tokenizer.merges, "GPT-2's merges.txt")
      ->type_name("FILE");
  command
      ->add_option(
          "--format",
          arguments->format,
          "nanogpt (the default), or llmc, with a header")
      ->type_name("NAME")
      ->check(CLI::IsMember({"nanogpt", "llmc"}));
  command
      ->add_option(
          "--validation-share",
          arguments->validation_share,
          "How much of the end is for evaluation, 0.1")
      ->type_name("SHARE")
      ->check([](const std::string& text) {
        const double share = std::strtod(text.c_str(), nullptr);
        return share >= 0 && share <= 0.99 // which nan is not
            ? std::string()
            : "expected a number from 0 to 0.99, got " + text;
      });
  command->footer(kDataFooter);
  command->add_flag(
      "--overwrite",
      arguments->overwrite,
      "Replace the tokens that are in DIR");
  command->callback([arguments] {
    arguments->tokenizer.kind = kTokenizerNames.at(arguments->tokenizer_name);
    make_tokens(*arguments);
  });
}

} // namespace zero::cli
