// `zero data`: makes tokens of text, once, for runs that train on them.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "cli/commands.h"
#include "data/bpe_tokenizer.h"
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
  std::string tokenizer = "character";
  std::string vocab;
  std::string merges;
  std::string format = "nanogpt";
  double validation_share = 0.1;
};

std::unique_ptr<data::Tokenizer> make_data_tokenizer(
    const DataArguments& arguments) {
  if (arguments.tokenizer == "byte") {
    return data::make_byte_tokenizer();
  }
  if (arguments.tokenizer == "gpt2") {
    if (arguments.vocab.empty() || arguments.merges.empty()) {
      throw ConfigError(
          "--tokenizer gpt2 needs its two files. Fix: add --vocab and "
          "--merges, the paths of vocab.json and merges.txt");
    }
    return data::read_bpe_tokenizer(arguments.vocab, arguments.merges);
  }
  return data::make_character_tokenizer(
      base::read_file(arguments.text, "the text " + arguments.text));
}

// Encodes the text piece by piece, each as long as the tokens are those of the
// whole.
class Encoder {
 public:
  Encoder(const std::string& path, const data::Tokenizer& tokenizer)
      : path_(path),
        file_(path, std::ios::binary),
        tokenizer_(tokenizer),
        progress_(STDOUT_FILENO),
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
          read_ < until ? data::independent_prefix(pending) : pending.size();
      writer.add(tokenizer_.encode(std::string_view(pending).substr(0, ready)));
      pending.erase(0, ready);
      progress_.bar(read_, size_, base::seconds_since(start_));
    }
    writer.commit();
  }

  int64_t size() const {
    return size_;
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
  const auto format = arguments.format == "llmc" ? data::TokenFormat::llmc
                                                 : data::TokenFormat::nanogpt;
  const auto tokenizer = make_data_tokenizer(arguments);
  std::filesystem::create_directories(arguments.out);
  Encoder encoder(arguments.text, *tokenizer);
  const auto cut = static_cast<int64_t>(std::llround(
      static_cast<double>(encoder.size()) * (1 - arguments.validation_share)));
  const auto write = [&](const char* name, int64_t until) {
    const std::string path = arguments.out + "/" + name;
    data::TokenWriter writer(path, format, tokenizer->vocabulary());
    encoder.encode(until, writer);
    return c10::str(path, ": ", base::grouped(writer.num_tokens()), " tokens");
  };
  std::string written = write("train.bin", cut) + "\n";
  if (cut < encoder.size()) {
    written += write("val.bin", encoder.size()) + "\n";
  }
  data::write_tokenizer(*tokenizer, arguments.out);
  std::cout << written
            << "vocabulary: " << base::grouped(tokenizer->vocabulary())
            << " tokens (\"vocab_size\" of the model)\n";
}

} // namespace

void add_data_command(CLI::App& app) {
  auto* command = app.add_subcommand("data", "Make tokens of a text");
  auto arguments = std::make_shared<DataArguments>();
  command->add_option("TEXT", arguments->text, "A text file")->required();
  command->add_option("--out", arguments->out, "The folder for the tokens")
      ->type_name("DIR")
      ->required();
  command
      ->add_option(
          "--tokenizer",
          arguments->tokenizer,
          "character (the default), byte or gpt2")
      ->type_name("NAME")
      ->check(CLI::IsMember({"character", "byte", "gpt2"}));
  command->add_option("--vocab", arguments->vocab, "GPT-2's vocab.json")
      ->type_name("FILE");
  command->add_option("--merges", arguments->merges, "GPT-2's merges.txt")
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
      ->check(CLI::Range(0.0, 0.99));
  command->footer(kDataFooter);
  command->callback([arguments] { make_tokens(*arguments); });
}

} // namespace zero::cli
