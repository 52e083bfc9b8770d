// Defines Communicator: how the ranks of a group exchange tensors; Work, the
// handle of an operation under way; and Window, memory that other ranks read.
//
// Tensors are contiguous CPU tensors of float32, float64, bfloat16, float16,
// int8, int32, int64 or uint8, of any size, 0 included. Every rank of the group
// makes the same calls in the same order. Sums are taken in rank order, halves
// in float32, so a result has the same bits in every run. (CUDA tensors need
// libzero's module for NCCL, and differ in more than one way: docs/gpu.md.)
//
//   zero::Communicator comm = world.communicator();
//   zero::Work work = comm.all_reduce(gradient, zero::ReduceOp::mean);
//   ...                     // the tensor belongs to the operation until
//   work.wait();            // wait() returns
//
// Handles are cheap to copy. Calls may come from several threads, as long as
// every rank issues the collectives of one communicator in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace zero {

namespace comm {
class Group;
class Operation;
struct WindowState;
} // namespace comm

enum class ReduceOp : uint8_t { sum, mean, max, min };

// The operations that errors name. Making a window or a group is not counted.
enum class CommOp : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  barrier,
  send,
  recv,
  get,
  window,
  split,
};
inline constexpr int kNumCommOps = 11;
const char* name_of(CommOp op);

// What one kind of operation has cost this rank: payload bytes that it read
// from other ranks' memory. docs/communication.md has the formula of each.
struct OperationTraffic {
  int64_t calls = 0;
  int64_t bytes_received = 0;
};

// The part of a buffer that belongs to one rank, in elements.
struct ChunkRange {
  int64_t offset = 0;
  int64_t numel = 0;
};

// Cuts `numel` elements over `size` ranks: ceil(numel / size) each, the last
// ones shorter or empty. Throws: ConfigError if rank is not below size.
ChunkRange chunk_range(int64_t numel, int rank, int size);

// An operation under way. Dropping it unwaited leaves the operation running,
// and its error unseen.
class [[nodiscard]] Work {
 public:
  Work() = default; // already done

  // Blocks until the operation is complete on this rank. May be called again.
  // Throws: PeerLost, CommTimeout, CommError; the same one on every call.
  void wait();

  // True once wait() would not block.
  bool done() const;

 private:
  friend class Communicator;
  Work(
      std::shared_ptr<comm::Group> group,
      std::shared_ptr<comm::Operation> operation);
  std::shared_ptr<comm::Group> group_;
  std::shared_ptr<comm::Operation> operation_;
};

// Memory of every rank of a group, which any of them reads at any time; the
// owner takes no part in it. It outlives its owner: what a lost rank had
// written can still be read. Whether data is complete is for the ranks to
// agree on, with a barrier for example.
class Window {
 public:
  // This rank's own memory as a tensor of bytes; writing it publishes.
  at::Tensor local() const;

  // The same memory as a tensor of `numel` elements, from a byte offset on.
  at::Tensor local(at::ScalarType dtype, int64_t offset_bytes, int64_t numel)
      const;

  // Copies rank's memory from `offset_bytes` on into `tensor`, all of it.
  // Throws: ConfigError if that reaches beyond the rank's memory.
  Work get(const at::Tensor& tensor, int rank, int64_t offset_bytes = 0) const;

  // rank's memory in place, to be read without a copy. Throws: ConfigError if
  // the rank is on another host.
  const void* data(int rank) const;
  int64_t bytes(int rank) const;

 private:
  friend class Communicator;
  explicit Window(std::shared_ptr<comm::WindowState> state);
  std::shared_ptr<comm::WindowState> state_;
};

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<comm::Group> group);

  int rank() const;
  int size() const;

  // tensor = the reduction of every rank's tensor. An integer mean is rounded
  // towards zero; max and min of a NaN are NaN.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);

  // The chunk of `tensor` that is this rank's by chunk_range = the reduction of
  // that chunk over the ranks; the rest stays as it was.
  Work reduce_scatter(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum);

  // The same with the result elsewhere; `output` has the chunk's size.
  Work reduce_scatter(
      const at::Tensor& output,
      const at::Tensor& input,
      ReduceOp op = ReduceOp::sum);

  // Every other chunk of `tensor` = the chunk as its rank has it.
  Work all_gather(const at::Tensor& tensor);

  // The same from a shard; `input` has the chunk's size.
  Work all_gather(const at::Tensor& output, const at::Tensor& input);

  // tensor = the root's tensor.
  Work broadcast(const at::Tensor& tensor, int root = 0);

  // Chunk j of `tensor` goes to rank j, whose chunk for this rank takes its
  // place. Throws: ConfigError if the size does not divide by the ranks.
  Work all_to_all(const at::Tensor& tensor);

  // Chunk j of `input` goes to rank j; `output` has what the ranks sent here,
  // in rank order, size() times this rank's chunk.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input);

  // Messages between two ranks arrive in the order they were sent, and do not
  // wait for collectives or for other pairs.
  Work send(const at::Tensor& tensor, int rank);
  Work recv(const at::Tensor& tensor, int rank);

  // Blocks until every rank has come here.
  void barrier();

  // Collective: gives every rank `bytes` of memory (each its own number) that
  // the others can read. Throws: IoError on every rank if one has no memory.
  Window window(int64_t bytes);

  // Collective: the ranks that gave the same color form a group of their own,
  // ordered by key, then by rank.
  Communicator split(int color, int key);

  // Called by the survivors after PeerLost (or any other failure): waits until
  // every rank that is not lost has called it, and gives them a communicator of
  // their own, in the old order. Operations under way on this one fail.
  // Throws: CommTimeout if a living rank does not come.
  Communicator shrink();

  OperationTraffic traffic(CommOp op) const;
  void reset_traffic();

 private:
  Work start(std::shared_ptr<comm::Operation> operation);

  std::shared_ptr<comm::Group> group_;
};

} // namespace zero
