// Defines where the modules are that libzero loads at run time.
#pragma once

#include <string>

namespace zero::comm {

// Beside the library: lib/zero/libzero_NAME.so. It need not be there.
std::string module_path(const std::string& name);

} // namespace zero::comm
