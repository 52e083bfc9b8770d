// Defines which libtorch this process has loaded, and whether libzero can work
// with it.
#pragma once

#include <string>

namespace zero::base {

// "2.15.0": of the library that is loaded, which need not be the one whose
// headers libzero was compiled with.
std::string libtorch_version();

// The file it was loaded from; "unknown" if the loader does not tell.
std::string libtorch_path();

// Throws: ConfigError when it is older than 2.6, or of another release than
// libzero was compiled for: C++ classes change between releases.
void require_libtorch();

// The same for any two versions, as texts.
void check_libtorch_version(
    const std::string& loaded,
    const std::string& compiled);

} // namespace zero::base
