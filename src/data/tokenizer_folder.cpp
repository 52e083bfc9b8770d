#include "data/tokenizer_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_io.h"
#include "config/parse_json.h"
#include "config/report.h"
#include "data/bpe_tokenizer.h"

namespace zero::data {

namespace {

using config::JsonValue;

constexpr const char* kOwnFile = "/libzero_tokenizer.json";
constexpr const char* kVocabFile = "/vocab.json";
constexpr const char* kMergesFile = "/merges.txt";

std::string characters_json(const CharacterParts& parts) {
  nlohmann::ordered_json characters = nlohmann::ordered_json::array();
  for (const std::string& character : parts.characters) {
    if (begins_outside_utf8(character)) {
      characters.push_back(static_cast<unsigned char>(character[0]));
    } else {
      characters.push_back(character);
    }
  }
  const nlohmann::ordered_json root{
      {"type", "character"}, {"characters", std::move(characters)}};
  return root.dump() + "\n";
}

// One for each kind of tokenizer.
struct TokenizerWriter {
  const std::string& folder;

  void operator()(const ByteParts& /*parts*/) const {
    base::write_file(folder + kOwnFile, "{\"type\":\"byte\"}\n");
  }
  void operator()(const CharacterParts& parts) const {
    base::write_file(folder + kOwnFile, characters_json(parts));
  }
  void operator()(const BpeParts& parts) const {
    // One of an earlier tokenizer would be read in place of these.
    const std::string own = folder + kOwnFile;
    if (::unlink(own.c_str()) != 0 && errno != ENOENT) {
      throw IoError(base::system_message(
          c10::str("cannot remove '", own, "'. Fix: remove it"),
          "unlink",
          errno));
    }
    base::write_file(folder + kVocabFile, parts.vocab);
    base::write_file(folder + kMergesFile, parts.merges);
  }
};

[[noreturn]] void refuse_own(
    const std::string& path,
    int line,
    const std::string& what) {
  throw CorruptionError(c10::str(
      path,
      ":",
      line,
      ": ",
      what,
      ". Fix: write the tokenizer again, or take the file from where the model "
      "came from"));
}

// Empty if the value is no character.
std::string character_of(const JsonValue& value) {
  if (value.kind == JsonValue::Kind::text) {
    const bool is_one = !value.text.empty() &&
        first_character(value.text).size() == value.text.size();
    return is_one ? value.text : "";
  }
  const bool is_byte = value.kind == JsonValue::Kind::integer &&
      value.integer >= 0x80 && value.integer <= 0xFF;
  return is_byte ? std::string(1, static_cast<char>(value.integer)) : "";
}

std::unique_ptr<Tokenizer> character_tokenizer_from(
    const JsonValue& root,
    const std::string& path) {
  const JsonValue* list = root.find("characters");
  if (list == nullptr || list->kind != JsonValue::Kind::list ||
      list->elements.empty()) {
    refuse_own(path, root.line, R"(expected a list "characters")");
  }
  std::vector<std::string> characters;
  std::set<std::string_view> seen;
  characters.reserve(list->elements.size()); // views stay good
  for (const JsonValue& value : list->elements) {
    const std::string& character = characters.emplace_back(character_of(value));
    const std::string place =
        c10::str("characters[", characters.size() - 1, "] is ");
    if (character.empty()) {
      refuse_own(
          path,
          value.line,
          c10::str(
              place,
              value.describe(),
              ", expected one character, or a byte from 128 to 255"));
    }
    if (!seen.insert(character).second) {
      refuse_own(
          path,
          value.line,
          c10::str(place, value.describe(), ", which is there before it"));
    }
  }
  return make_tokenizer_of(std::move(characters));
}

std::unique_ptr<Tokenizer> read_own(const std::string& path) {
  const std::string text =
      base::read_file(path, "'" + path + "'", config::kMaxJsonBytes);
  config::Report report(path);
  const JsonValue root = config::parse_json(text, path, report);
  report.throw_if_any();
  const JsonValue* type = root.find("type");
  if (type != nullptr && type->is_text("byte")) {
    return make_byte_tokenizer();
  }
  if (type != nullptr && type->is_text("character")) {
    return character_tokenizer_from(root, path);
  }
  refuse_own(
      path,
      type == nullptr ? root.line : type->line,
      c10::str(
          "type is ",
          type == nullptr ? "missing" : type->describe(),
          R"(, expected "byte" or "character")"));
}

// What cannot be looked at is left to the reader to complain of.
bool may_be(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

} // namespace

void write_tokenizer(const Tokenizer& tokenizer, const std::string& folder) {
  std::visit(TokenizerWriter{folder}, tokenizer.parts());
}

void remove_tokenizer(const std::string& folder) {
  for (const char* file : {kOwnFile, kVocabFile, kMergesFile}) {
    std::filesystem::remove(folder + file);
  }
}

bool has_tokenizer(const std::string& folder) {
  return may_be(folder + kOwnFile) || may_be(folder + kVocabFile) ||
      may_be(folder + kMergesFile);
}

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& folder) {
  if (may_be(folder + kOwnFile)) {
    return read_own(folder + kOwnFile);
  }
  if (has_tokenizer(folder)) {
    return read_bpe_tokenizer(folder + kVocabFile, folder + kMergesFile);
  }
  throw ConfigError(c10::str(
      "no tokenizer in '",
      folder,
      "': expected libzero_tokenizer.json, or vocab.json with merges.txt. Fix: "
      "name the folder of a model that was trained on text"));
}

} // namespace zero::data
