#include "checkpoint/manifest.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/quantity.h"
#include "checkpoint/safetensors_types.h"
#include "config/parse_json.h"

namespace zero::checkpoint {

using config::JsonValue;
using Kind = JsonValue::Kind;
using nlohmann::ordered_json;

namespace {

constexpr const char* kFormat = "libzero checkpoint";
constexpr int64_t kVersion = 1;
constexpr int64_t kMaxRanks = 1 << 20;

// The end of the file, with the checksum of all that comes before it.
constexpr std::string_view kTailBegin = ",\n \"checksum\": \"";
constexpr std::string_view kTailEnd = "\"\n}\n";
constexpr size_t kTailBytes =
    kTailBegin.size() + base::kChecksumDigits + kTailEnd.size();

std::string tail_of(std::string_view body) {
  return c10::str(
      kTailBegin, base::checksum_text(base::checksum_of(body)), kTailEnd);
}

ordered_json json_of(const SavedParameter& parameter) {
  return {
      {"names", parameter.names},
      {"dtype", type_name(parameter.dtype)},
      {"shape", parameter.sizes},
      {"strides", parameter.strides},
      {"trained", parameter.trained},
      {"updates", parameter.updates}};
}

ordered_json json_of(const SamplerState& sampler) {
  return {
      {"num_samples", sampler.num_samples},
      {"seed", std::to_string(sampler.seed)}, // more than JSON's integers have
      {"shuffle", sampler.shuffle},
      {"position", sampler.position}};
}

// Reads values that have to be there and to be right.
class Fields {
 public:
  Fields(const JsonValue& object, const std::string& path, std::string where)
      : object_(object), path_(path), where_(std::move(where)) {
    if (!object.is_object()) {
      refuse(where_ + " is no object");
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw CorruptionError(c10::str(
        "'",
        path_,
        "' is not what libzero has written: ",
        what,
        ". Fix: load another checkpoint"));
  }

  const JsonValue* find(const char* key) const {
    return object_.find(key);
  }
  const JsonValue& get(const char* key, Kind kind) const {
    const auto* value = object_.find(key);
    if (value == nullptr || value->kind != kind) {
      refuse(c10::str(where_, " has no right '", key, "'"));
    }
    return *value;
  }
  const std::string& text(const char* key) const {
    return get(key, Kind::text).text;
  }
  bool boolean(const char* key) const {
    return get(key, Kind::boolean).boolean;
  }
  int64_t count(const char* key) const {
    const int64_t value = get(key, Kind::integer).integer;
    if (value < 0) {
      refuse(c10::str(where_, " has ", value, " for '", key, "'"));
    }
    return value;
  }
  std::vector<int64_t> counts(const char* key) const {
    std::vector<int64_t> values;
    for (const auto& element : get(key, Kind::list).elements) {
      if (element.kind != Kind::integer || element.integer < 0) {
        refuse(c10::str(where_, " has a wrong '", key, "'"));
      }
      values.push_back(element.integer);
    }
    return values;
  }
  uint64_t word(const char* key, int base) const {
    const std::string& digits = text(key);
    const char* known = base == 16 ? "0123456789abcdef" : "0123456789";
    if (digits.empty() || digits.size() > 20 ||
        digits.find_first_not_of(known) != std::string::npos) {
      refuse(c10::str(where_, " has a wrong '", key, "'"));
    }
    return std::strtoull(digits.c_str(), nullptr, base);
  }
  c10::ScalarType dtype() const {
    for (const auto& [type, name] : kSafetensorsTypes) {
      if (text("dtype") == name) {
        return type;
      }
    }
    refuse(c10::str(where_, " has the unknown type '", text("dtype"), "'"));
  }
  // What is not there may be left out.
  std::map<std::string, std::string> texts(const char* key) const {
    std::map<std::string, std::string> all;
    const auto& value = get(key, Kind::object);
    for (size_t i = 0; i < value.keys.size(); ++i) {
      if (value.elements[i].kind != Kind::text) {
        refuse(c10::str(where_, " has a wrong '", key, "'"));
      }
      all[value.keys[i]] = value.elements[i].text;
    }
    return all;
  }
  template <class Visit>
  void for_each(const char* key, Visit visit) const {
    for (const auto& element : get(key, Kind::list).elements) {
      visit(Fields(element, path_, c10::str("an element of '", key, "'")));
    }
  }

 private:
  const JsonValue& object_;
  const std::string& path_;
  std::string where_;
};

SavedParameter parameter_of(const Fields& fields) {
  SavedParameter parameter{
      .names = {},
      .dtype = fields.dtype(),
      .sizes = fields.counts("shape"),
      .strides = fields.counts("strides"),
      .trained = fields.boolean("trained"),
      .updates = fields.count("updates")};
  for (const auto& name : fields.get("names", Kind::list).elements) {
    if (name.kind != Kind::text) {
      fields.refuse("a parameter's name is no text");
    }
    parameter.names.push_back(name.text);
  }
  if (parameter.names.empty() ||
      parameter.strides.size() != parameter.sizes.size()) {
    fields.refuse("a parameter has no name, or strides that do not fit");
  }
  return parameter;
}

SamplerState sampler_of(const Fields& fields) {
  return {
      .num_samples = fields.count("num_samples"),
      .seed = fields.word("seed", 10),
      .shuffle = fields.boolean("shuffle"),
      .position = fields.count("position")};
}

} // namespace

std::string Manifest::to_json() const {
  ordered_json json{
      {"format", kFormat},
      {"version", kVersion},
      {"libzero", libzero_version},
      {"saved_at", saved_at},
      {"step", step},
      {"stage", stage},
      {"optimizer", optimizer},
      {"num_states", num_states},
      {"set_rates", ordered_json::array()},
      {"notes", notes}};
  for (const auto& rate : set_rates) {
    json["set_rates"].push_back(rate ? ordered_json(*rate) : ordered_json());
  }
  if (sampler) {
    json["sampler"] = json_of(*sampler);
  }
  json["parameters"] = ordered_json::array();
  for (const auto& parameter : parameters) {
    json["parameters"].push_back(json_of(parameter));
  }
  json["buffers"] = ordered_json::array();
  for (const auto& buffer : buffers) {
    json["buffers"].push_back(
        {{"name", buffer.name},
         {"dtype", type_name(buffer.dtype)},
         {"shape", buffer.sizes}});
  }
  json["shards"] = ordered_json::array();
  for (const auto& shard : shards) {
    json["shards"].push_back(
        {{"bytes", shard.bytes},
         {"checksum", base::checksum_text(shard.checksum)}});
  }
  json["configuration"] = ordered_json::parse(configuration);
  std::string body = json.dump(1);
  body.resize(body.size() - 2); // without the last line end and brace
  return body + tail_of(body);
}

Manifest Manifest::from_json(std::string_view text, const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    throw CorruptionError(c10::str(
        "'",
        path,
        "' is not what libzero has written: ",
        what,
        ". Fix: load another checkpoint"));
  };
  if (text.size() < kTailBytes) {
    refuse(c10::str("it has ", text.size(), " bytes"));
  }
  const auto body = text.substr(0, text.size() - kTailBytes);
  if (text.substr(body.size()) != tail_of(body)) {
    refuse("its checksum is wrong");
  }
  JsonValue root;
  try {
    config::Report report(path);
    root = config::parse_json(text, path, report);
    report.throw_if_any();
  } catch (const ConfigError& error) {
    refuse(error.what());
  }
  const Fields fields(root, path, "the manifest");
  if (fields.text("format") != kFormat) {
    refuse(c10::str("its format is '", fields.text("format"), "'"));
  }
  if (fields.count("version") != kVersion) {
    throw ConfigError(c10::str(
        "'",
        path,
        "' is of version ",
        fields.count("version"),
        " of the format, this libzero reads version ",
        kVersion,
        ". Fix: use the libzero that wrote it, ",
        fields.text("libzero")));
  }
  Manifest manifest{
      .libzero_version = fields.text("libzero"),
      .saved_at = fields.text("saved_at"),
      .step = fields.count("step"),
      .stage = static_cast<int>(std::min<int64_t>(fields.count("stage"), 3)),
      .optimizer = fields.text("optimizer"),
      .num_states =
          static_cast<int>(std::min<int64_t>(fields.count("num_states"), 64)),
      .set_rates = {},
      .parameters = {},
      .buffers = {},
      .shards = {},
      .sampler = {},
      .notes = fields.texts("notes"),
      .configuration = {}};
  for (const auto& rate : fields.get("set_rates", Kind::list).elements) {
    const bool is_set = rate.kind != Kind::null;
    if (is_set &&
        ((rate.kind != Kind::number && rate.kind != Kind::integer) ||
         !(rate.number >= 0))) {
      refuse("a learning rate is not a number of at least 0");
    }
    manifest.set_rates.push_back(
        is_set ? std::optional(rate.number) : std::nullopt);
  }
  if (const auto* sampler = fields.find("sampler")) {
    manifest.sampler = sampler_of(Fields(*sampler, path, "'sampler'"));
  }
  std::set<std::string> names;
  fields.for_each("parameters", [&](const Fields& each) {
    manifest.parameters.push_back(parameter_of(each));
    for (const auto& name : manifest.parameters.back().names) {
      if (!names.insert(name).second) {
        refuse(c10::str("parameter '", name, "' is there twice"));
      }
    }
  });
  fields.for_each("buffers", [&](const Fields& each) {
    manifest.buffers.push_back(
        {each.text("name"), each.dtype(), each.counts("shape")});
    if (!names.insert(each.text("name")).second) {
      refuse(c10::str("buffer '", each.text("name"), "' is there twice"));
    }
  });
  fields.for_each("shards", [&](const Fields& each) {
    manifest.shards.push_back({each.count("bytes"), each.word("checksum", 16)});
  });
  if (manifest.shards.empty() ||
      static_cast<int64_t>(manifest.shards.size()) > kMaxRanks) {
    refuse(c10::str("it has ", manifest.shards.size(), " shards"));
  }
  // What nlohmann writes of it is its text. It refuses what parse_json() does
  // not, comments for one.
  fields.get("configuration", Kind::object);
  try {
    manifest.configuration = ordered_json::parse(text)["configuration"].dump(1);
  } catch (const ordered_json::exception& error) {
    refuse(error.what());
  }
  return manifest;
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + '/' + kManifestName;
  std::error_code error;
  if (std::filesystem::is_directory(folder, error) &&
      !std::filesystem::exists(path, error) && !error) {
    throw CorruptionError(
        c10::str("'", path, "' is missing. Fix: load another checkpoint"));
  }
  return Manifest::from_json(
      base::read_file(path, "'" + path + "'", config::kMaxJsonBytes + 1), path);
}

c10::ScalarType state_dtype(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Double ? dtype : c10::ScalarType::Float;
}

std::string shard_name(int rank) {
  return "rank-" + base::zero_padded(rank, 5) + ".safetensors";
}

std::string parameter_key(const std::string& name) {
  return "parameter/" + name;
}

std::string state_key(int state, const std::string& name) {
  return c10::str("state.", state, "/", name);
}

std::string buffer_key(const std::string& name) {
  return "buffer/" + name;
}

} // namespace zero::checkpoint
