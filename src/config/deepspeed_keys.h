// Defines what becomes of the keys that DeepSpeed knows and libzero does not
// act on. A key that changes no result is accepted; one that asks for something
// is accepted only where its value asks for nothing, since a file that is
// quietly obeyed in half is worse than one that is refused.
//
//   read_deepspeed_keys(root, top_level_keys());
//
// The tables are DeepSpeed 0.19.8's, in deepspeed_tables.cpp.
#pragma once

#include <span>
#include <string_view>

#include "config/section.h"

namespace zero::config {

struct DeepSpeedKey {
  enum class Kind {
    boolean,
    count, // a whole number of at least 0
    integer,
    text,
    texts, // a list of texts, or one
    anything,
    switched, // an object that is off unless one of its keys says otherwise
    group, // an object with rules for each of its keys
    removed, // DeepSpeed had it once, and refuses it too
    misplaced, // belongs somewhere else
  };

  std::string_view name;
  Kind kind = Kind::anything;
  // The values that ask for nothing, apart by spaces; if empty, all do. Of a
  // switched object: those of its switch.
  std::string_view off = {};
  std::string_view switch_name = {};
  bool is_on_by_default = false;
  std::string_view others = {}; // keys of a switched object besides its switch
  std::span<const DeepSpeedKey> keys = {}; // of a group
  std::string_view fix = {}; // of what is removed or misplaced
};

// Everywhere null, and "auto" where DeepSpeed's default asks for nothing, are
// as if the key were absent.
void read_deepspeed_keys(Section& section, std::span<const DeepSpeedKey> keys);

std::span<const DeepSpeedKey> top_level_keys();
std::span<const DeepSpeedKey> zero_optimization_keys();
std::span<const DeepSpeedKey> optimizer_keys();
std::span<const DeepSpeedKey> adam_keys(); // in optimizer.params
std::span<const DeepSpeedKey> sgd_keys();
std::span<const DeepSpeedKey> scheduler_keys(); // in scheduler.params

} // namespace zero::config
