// Defines remember_saved(): an engine remembers the folder that it has saved to
// or loaded from last, to go back to when ranks are lost with what they had.
#pragma once

#include <string>

namespace zero::engine {
class Succession;
}

namespace zero::checkpoint {

// On every rank, when a checkpoint is there or about to be.
void remember_saved(engine::Succession& succession, const std::string& folder);

} // namespace zero::checkpoint
