// Defines the version of libzero.
#pragma once

#define ZERO_VERSION "0.1.0"
