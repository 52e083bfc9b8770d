// Defines host_name(): what this machine calls itself, for messages that others
// have to find it by.
#pragma once

#include <string>

namespace zero::base {

std::string host_name();

} // namespace zero::base
