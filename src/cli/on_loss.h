// Defines --on-loss, an option of the commands that start ranks.
//
//   add_on_loss(*command, options->on_loss);
#pragma once

#include <CLI/CLI.hpp>

#include "launch/run.h"

namespace zero::cli {

// Sets `on_loss`, which lives as long as the command, when it is given.
CLI::Option* add_on_loss(CLI::App& command, launch::OnLoss& on_loss);

} // namespace zero::cli
