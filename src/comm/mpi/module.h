// Defines what libzero asks of an MPI. The module that answers is compiled once
// for each MPI that is found, since their binaries are not interchangeable, and
// loaded at run time: the library and the program need none.
//
// One thread at a time calls it. A return value below 0 is a failure, and
// error() says which.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr uint32_t kZeroMpiModuleVersion = 3;

// Transfers are best not larger than this: see module.cpp.
inline constexpr size_t kZeroMpiPartBytes = size_t{128} << 10;
// Within one machine, where MPI copies straight from one memory into the other,
// each transfer costs some microseconds.
inline constexpr size_t kZeroMpiPassagePartBytes = size_t{256} << 10;

enum class ZeroMpiState : int32_t {
  under_way,
  done,
  failed, // the other rank is lost
};

struct ZeroMpiModule {
  uint32_t version; // kZeroMpiModuleVersion
  const char* (*library)(); // "Open MPI v5.0.11, ..."
  const char* (*error)(); // of the last call that failed

  // Initialises MPI unless the program has.
  int (*start)();
  // Finalises it if start() has initialised it, and no rank is lost.
  void (*stop)(int is_whole);

  int (*rank)();
  int (*size)();
  // Whether survivors go on after a loss (ULFM).
  int (*survives_losses)();

  // Collective, and blocks: for the beginning.
  int (*all_gather)(const void* own, size_t bytes, void* all);

  // Handles of transfers; each is to be closed.
  int (*send)(int to, int tag, const void* data, size_t bytes);
  int (*receive)(int from, int tag, void* data, size_t bytes);
  // Moves all of them on, without waiting.
  void (*advance)();
  // Where one is since then.
  ZeroMpiState (*state)(int handle, size_t* bytes);
  // One that is received fails then, unless what it waits for is coming.
  void (*cancel)(int handle);
  void (*close)(int handle);
};

// The one symbol of a module.
const ZeroMpiModule* zero_mpi_module();

} // extern "C"
