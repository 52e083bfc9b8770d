#include "cli/on_loss.h"

#include <string>

#include "base/error.h"

namespace zero::cli {

namespace {

std::string check_on_loss(const std::string& policy) {
  if (policy == "stop" || policy == "shrink" || policy == "replace") {
    return "";
  }
  return c10::str(
      "unknown policy \"", policy, "\": expected stop, shrink or replace");
}

} // namespace

CLI::Option* add_on_loss(CLI::App& command, launch::OnLoss& on_loss) {
  const auto set = [&on_loss](const std::string& policy) {
    on_loss = policy == "shrink" ? launch::OnLoss::shrink
        : policy == "replace"    ? launch::OnLoss::replace
                                 : launch::OnLoss::stop;
  };
  return command
      .add_option_function<std::string>(
          "--on-loss",
          set,
          "What to do when a rank fails: stop (the default) ends all, shrink "
          "lets the others go on, replace also starts a new process in its "
          "place")
      ->type_name("POLICY")
      // The list is what a shell completes.
      ->check(CLI::Validator(check_on_loss, "{stop,shrink,replace}"));
}

} // namespace zero::cli
