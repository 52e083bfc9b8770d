// Defines NcclGroup: the ranks of a group, with a GPU each, and the NCCL
// communicator between them. A Group makes it for the first CUDA tensor, and
// Communicator hands on what it starts. Threads may call it at once.
//
//   auto operation = group.nccl(CommOp::all_reduce, tensor.device())
//                        .all_reduce(tensor, ReduceOp::sum);
//   group.progress().submit(operation);
//
// Note [Collectives on a stream]
// NCCL works on torch's current stream of the tensor's device: what is put on
// that stream later sees the result, whether or not anybody has waited for it.
// The operation that is returned only watches for the end of it. So Progress
// finds lost and late ranks as it does for all others; and an operation that
// fails takes the NCCL communicator with it, because nothing else ends a kernel
// that waits for a rank that is gone.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <zero/communicator.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/nccl/load.h"
#include "comm/nccl/module.h"
#include "comm/shm/operation.h"

namespace zero::comm {

class Group;

class NcclGroup {
 public:
  using Ptr = std::shared_ptr<Operation>;
  using StreamOf = void* (*)(c10::Device);

  // Collective, and blocks until all ranks have come. `purpose` is what the
  // user called. Throws: CommError on every rank if NCCL does not start on one;
  // PeerLost, CommTimeout.
  NcclGroup(
      Group& group,
      CommOp purpose,
      c10::Device device,
      const ZeroNcclModule& module,
      StreamOf stream_of = current_stream);
  ~NcclGroup() = default;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Throws: ConfigError if it is not the device that this group works on.
  void require_device(CommOp op, c10::Device device) const;

  // As those of Communicator. Tensors are checked already.
  Ptr all_reduce(const at::Tensor& tensor, ReduceOp op);
  Ptr reduce_scatter(
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op);
  Ptr all_gather(const at::Tensor& output, const at::Tensor& input);
  Ptr broadcast(const at::Tensor& tensor, int root);
  Ptr send(const at::Tensor& tensor, int rank);
  Ptr recv(const at::Tensor& tensor, int rank);

  // Ends all that is under way; nothing can be started any more.
  void close();

  // What NcclOperation asks. The complaint is why nothing can be expected of
  // NCCL any more; empty if something can, or if Progress will say why not.
  std::string complaint();
  bool is_ended() const {
    return is_ended_;
  }
  int rank() const;
  int size() const;
  const ZeroNcclModule& module() const {
    return module_;
  }

 private:
  struct CloseComm {
    const ZeroNcclModule* module;
    void operator()(ZeroNcclComm* comm) const {
      module->close(comm);
    }
  };

  void open(CommOp purpose);
  void enqueue(CommOp op, ZeroNcclFunction function, ZeroNcclCall call);
  void wait_until_taken(CommOp op);
  void end();
  Ptr watch(
      const Signature& signature,
      std::vector<at::Tensor> kept,
      int64_t bytes);
  std::string prefix(CommOp op) const;
  int64_t numel_of_chunk(const at::Tensor& whole) const;

  Group& group_;
  c10::Device device_;
  const ZeroNcclModule& module_;
  StreamOf stream_of_;
  std::atomic<bool> is_ended_ = false;
  std::mutex mutex_;
  std::unique_ptr<ZeroNcclComm, CloseComm> comm_; // null once it is ended
};

} // namespace zero::comm
