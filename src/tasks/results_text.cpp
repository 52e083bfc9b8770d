#include "tasks/results_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace zero::tasks {

using nlohmann::ordered_json;

std::string to_text(const KeptResults& results) {
  return ordered_json{
      {"last", results.last},
      {"best", results.best},
      {"best_step", results.best_step}}
      .dump();
}

KeptResults results_from_text(const std::string& text) {
  try {
    const auto json = ordered_json::parse(text);
    return {
        json.at("last").get<Results>(),
        json.at("best").get<Results>(),
        json.at("best_step").get<int64_t>()};
  } catch (const ordered_json::exception& error) {
    throw CorruptionError(c10::str(
        "the checkpoint's results cannot be read: ",
        error.what(),
        ". Fix: load another checkpoint"));
  }
}

} // namespace zero::tasks
