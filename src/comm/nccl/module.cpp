// The module for NCCL: see comm/nccl/module.h. It knows nothing of libzero or
// libtorch.
#include "comm/nccl/module.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <string>

struct ZeroNcclComm {
  ncclComm_t comm = nullptr;
  int device = 0;
};

struct ZeroNcclEvent {
  cudaEvent_t event = nullptr;
};

namespace {

static_assert(kZeroNcclIdBytes == NCCL_UNIQUE_ID_BYTES);

thread_local std::string message;

bool cuda_succeeded(cudaError_t code, const char* call) {
  if (code == cudaSuccess) {
    return true;
  }
  message = std::string(call) + " failed: " + cudaGetErrorString(code);
  return false;
}

// A call that goes on by itself has not failed.
bool nccl_succeeded(ncclResult_t code, const char* call) {
  if (code == ncclSuccess || code == ncclInProgress) {
    return true;
  }
  message = std::string(call) + " failed: " + ncclGetErrorString(code);
  const char* details = ncclGetLastError(nullptr);
  if (details != nullptr && *details != '\0') {
    message += std::string(" (") + details + ")";
  }
  return false;
}

// NCCL and CUDA work on the thread's device, which is the program's to choose.
class OnDevice {
 public:
  explicit OnDevice(int device)
      : is_set_(
            cuda_succeeded(cudaGetDevice(&before_), "cudaGetDevice") &&
            cuda_succeeded(cudaSetDevice(device), "cudaSetDevice")) {}
  ~OnDevice() {
    if (is_set_) {
      cudaSetDevice(before_);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  bool is_set() const {
    return is_set_;
  }

 private:
  int before_ = 0;
  bool is_set_;
};

ncclDataType_t type_of(const ZeroNcclCall& call) {
  switch (call.type) {
    case ZeroNcclType::int8:
      return ncclInt8;
    case ZeroNcclType::uint8:
      return ncclUint8;
    case ZeroNcclType::int32:
      return ncclInt32;
    case ZeroNcclType::int64:
      return ncclInt64;
    case ZeroNcclType::float16:
      return ncclFloat16;
    case ZeroNcclType::bfloat16:
      return ncclBfloat16;
    case ZeroNcclType::float32:
      return ncclFloat32;
    case ZeroNcclType::float64:
      return ncclFloat64;
  }
  return ncclNumTypes; // which NCCL refuses
}

ncclRedOp_t op_of(const ZeroNcclCall& call) {
  switch (call.op) {
    case ZeroNcclOp::sum:
      return ncclSum;
    case ZeroNcclOp::mean:
      return ncclAvg;
    case ZeroNcclOp::max:
      return ncclMax;
    case ZeroNcclOp::min:
      return ncclMin;
    case ZeroNcclOp::product:
      return ncclProd;
  }
  return ncclNumOps; // which NCCL refuses
}

cudaStream_t stream_of(const ZeroNcclCall& call) {
  return static_cast<cudaStream_t>(call.stream);
}

int make_id(void* id) {
  ncclUniqueId made;
  if (!nccl_succeeded(ncclGetUniqueId(&made), "ncclGetUniqueId")) {
    return -1;
  }
  std::memcpy(id, &made, sizeof(made));
  return 0;
}

ZeroNcclComm* open_comm(const void* id, int rank, int size, int device) {
  // Asked first: NCCL says of this only "unhandled cuda error".
  int num_devices = 0;
  if (!cuda_succeeded(cudaGetDeviceCount(&num_devices), "cudaGetDeviceCount")) {
    return nullptr;
  }
  const OnDevice on_device(device);
  if (!on_device.is_set()) {
    return nullptr;
  }
  ncclUniqueId made;
  std::memcpy(&made, id, sizeof(made));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Otherwise calls wait for other ranks inside NCCL, and for a lost one for
  // ever.
  config.blocking = 0;
  ZeroNcclComm comm{.comm = nullptr, .device = device};
  if (!nccl_succeeded(
          ncclCommInitRankConfig(&comm.comm, size, made, rank, &config),
          "ncclCommInitRankConfig")) {
    if (comm.comm != nullptr) {
      ncclCommAbort(comm.comm);
    }
    return nullptr;
  }
  return new ZeroNcclComm(comm);
}

ZeroNcclState state_of(ZeroNcclComm* comm) {
  ncclResult_t state = ncclSuccess;
  if (!nccl_succeeded(
          ncclCommGetAsyncError(comm->comm, &state), "ncclCommGetAsyncError") ||
      !nccl_succeeded(state, "NCCL")) {
    return ZeroNcclState::failed;
  }
  return state == ncclInProgress ? ZeroNcclState::under_way
                                 : ZeroNcclState::done;
}

// Runs `start`, which calls NCCL, on the communicator's device.
template <class Start>
int enqueue(ZeroNcclComm* comm, const char* name, Start start) {
  const OnDevice on_device(comm->device);
  return on_device.is_set() && nccl_succeeded(start(), name) ? 0 : -1;
}

int all_reduce(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclAllReduce", [&] {
    return ncclAllReduce(
        call->input,
        call->output,
        call->numel,
        type_of(*call),
        op_of(*call),
        comm->comm,
        stream_of(*call));
  });
}

int all_gather(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclAllGather", [&] {
    return ncclAllGather(
        call->input,
        call->output,
        call->numel,
        type_of(*call),
        comm->comm,
        stream_of(*call));
  });
}

int reduce_scatter(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclReduceScatter", [&] {
    return ncclReduceScatter(
        call->input,
        call->output,
        call->numel,
        type_of(*call),
        op_of(*call),
        comm->comm,
        stream_of(*call));
  });
}

int broadcast(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclBroadcast", [&] {
    return ncclBroadcast(
        call->input,
        call->output,
        call->numel,
        type_of(*call),
        call->rank,
        comm->comm,
        stream_of(*call));
  });
}

int send_to(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclSend", [&] {
    return ncclSend(
        call->input,
        call->numel,
        type_of(*call),
        call->rank,
        comm->comm,
        stream_of(*call));
  });
}

int recv_from(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  return enqueue(comm, "ncclRecv", [&] {
    return ncclRecv(
        call->output,
        call->numel,
        type_of(*call),
        call->rank,
        comm->comm,
        stream_of(*call));
  });
}

void close_comm(ZeroNcclComm* comm) {
  {
    const OnDevice on_device(comm->device);
    // Not ncclCommDestroy: that waits for other ranks, which may be gone.
    ncclCommAbort(comm->comm);
  }
  delete comm;
}

ZeroNcclEvent* record_event(ZeroNcclComm* comm, void* stream) {
  const OnDevice on_device(comm->device);
  cudaEvent_t event = nullptr;
  if (!on_device.is_set() ||
      !cuda_succeeded(
          cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
          "cudaEventCreateWithFlags")) {
    return nullptr;
  }
  if (!cuda_succeeded(
          cudaEventRecord(event, static_cast<cudaStream_t>(stream)),
          "cudaEventRecord")) {
    cudaEventDestroy(event);
    return nullptr;
  }
  return new ZeroNcclEvent{event};
}

ZeroNcclState poll_event(ZeroNcclEvent* event) {
  const cudaError_t code = cudaEventQuery(event->event);
  if (code == cudaErrorNotReady) {
    return ZeroNcclState::under_way;
  }
  return cuda_succeeded(code, "cudaEventQuery") ? ZeroNcclState::done
                                                : ZeroNcclState::failed;
}

void close_event(ZeroNcclEvent* event) {
  cudaEventDestroy(event->event);
  delete event;
}

const char* library() {
  static const std::string text = [] {
    int version = 0;
    ncclGetVersion(&version);
    return "NCCL " + std::to_string(version / 10000) + "." +
        std::to_string(version / 100 % 100) + "." +
        std::to_string(version % 100);
  }();
  return text.c_str();
}

const char* error() {
  return message.c_str();
}

} // namespace

extern "C" const ZeroNcclModule* zero_nccl_module() {
  static const ZeroNcclModule module = {
      kZeroNcclModuleVersion,
      library,
      error,
      make_id,
      open_comm,
      state_of,
      all_reduce,
      all_gather,
      reduce_scatter,
      broadcast,
      send_to,
      recv_from,
      close_comm,
      record_event,
      poll_event,
      close_event};
  return &module;
}
