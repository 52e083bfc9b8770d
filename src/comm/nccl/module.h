// Defines what libzero asks of NCCL. The module that answers is compiled where
// NCCL is (the preset `cuda`) and loaded at run time: the library and the
// program need none.
//
// Threads may call it at once, but for one communicator one at a time. A return
// value below 0, or null, is a failure, and error() says which, in the same
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr uint32_t kZeroNcclModuleVersion = 1;

inline constexpr size_t kZeroNcclIdBytes = 128;

enum class ZeroNcclType : int32_t {
  int8,
  uint8,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
};

enum class ZeroNcclOp : int32_t { sum, mean, max, min, product };

enum class ZeroNcclState : int32_t {
  under_way,
  done,
  failed,
};

struct ZeroNcclComm; // this rank's end of a communicator
struct ZeroNcclEvent; // a moment on a stream

// What a collective works on: memory of the communicator's device.
struct ZeroNcclCall {
  const void* input;
  void* output;
  size_t numel; // of what one rank gives, or gets where that is less
  ZeroNcclType type;
  ZeroNcclOp op; // of reductions
  int32_t rank; // the root of broadcast, the peer of send and recv
  void* stream; // cudaStream_t
};

using ZeroNcclFunction = int (*)(ZeroNcclComm* comm, const ZeroNcclCall* call);

struct ZeroNcclModule {
  uint32_t version; // kZeroNcclModuleVersion
  const char* (*library)(); // "NCCL 2.30.7"
  const char* (*error)(); // of this thread's last call that failed

  // kZeroNcclIdBytes that stand for a communicator to come: one rank makes
  // them, all of them open() it.
  int (*make_id)(void* id);

  // None of these waits for other ranks: state() is `under_way` until the last
  // call has been taken, and only then the stream may be used for something
  // else.
  ZeroNcclComm* (*open)(const void* id, int rank, int size, int device);
  ZeroNcclState (*state)(ZeroNcclComm* comm);
  ZeroNcclFunction all_reduce;
  ZeroNcclFunction all_gather;
  ZeroNcclFunction reduce_scatter;
  ZeroNcclFunction broadcast;
  ZeroNcclFunction send;
  ZeroNcclFunction recv;

  // Frees it; what is under way on the device ends without a result. Needs no
  // other rank.
  void (*close)(ZeroNcclComm* comm);

  // The moment when all is done that is on the stream now; to be closed.
  ZeroNcclEvent* (*record)(ZeroNcclComm* comm, void* stream);
  ZeroNcclState (*poll)(ZeroNcclEvent* event);
  void (*close_event)(ZeroNcclEvent* event);
};

// The one symbol of a module.
const ZeroNcclModule* zero_nccl_module();

} // extern "C"
