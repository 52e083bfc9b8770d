#include <zero/communicator.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "comm/nccl/nccl_group.h"
#include "comm/reduce_kernels.h"
#include "comm/shm/collectives.h"
#include "comm/shm/group.h"
#include "comm/shm/pairwise.h"
#include "comm/shm/where_it_is.h"
#include "comm/window_state.h"

namespace zero {

namespace {

using comm::Group;
using comm::Operation;

std::string prefix(const Group& group, CommOp op) {
  return c10::str(
      base::rank_prefix(group.rank(), group.size()), name_of(op), ": ");
}

void check_tensor(const Group& group, CommOp op, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected a tensor, got an undefined one. Fix: allocate it first"));
  }
  const bool may_be_there =
      tensor.is_cpu() || (tensor.is_cuda() && comm::has_nccl_module());
  if (!may_be_there) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected a tensor on the CPU, got one on ",
        tensor.device().str(),
        ". Fix: move it with .cpu()",
        tensor.is_cuda() ? ", or build libzero with the preset cuda" : ""));
  }
  if (tensor.layout() != at::kStrided) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected a dense tensor, got one in the layout ",
        tensor.layout(),
        ". Fix: call .to_dense()"));
  }
  if (!tensor.is_contiguous()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected a contiguous tensor, got sizes ",
        tensor.sizes(),
        " with strides ",
        tensor.strides(),
        ". Fix: call .contiguous() and copy the result back"));
  }
  if (tensor.is_neg() || tensor._is_zerotensor()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected a tensor with values of its own, got a lazily negated or "
        "zero one. Fix: call .resolve_neg() or .clone() first"));
  }
  if (!comm::is_supported(tensor.scalar_type())) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "cannot communicate tensors of type ",
        comm::name_of(tensor.scalar_type()),
        ". Fix: use float32, float64, bfloat16, float16, int8, int32, int64 "
        "or uint8"));
  }
}

void check_sizes(
    const Group& group,
    CommOp op,
    const at::Tensor& output,
    int64_t expected_output,
    const at::Tensor& input,
    int64_t expected_input) {
  if (output.device() != input.device()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected one device, got ",
        output.device().str(),
        " for the output and ",
        input.device().str(),
        " for the input. Fix: move one of them"));
  }
  if (output.scalar_type() != input.scalar_type()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected one type, got ",
        comm::name_of(output.scalar_type()),
        " for the output and ",
        comm::name_of(input.scalar_type()),
        " for the input. Fix: convert one of them"));
  }
  if (output.numel() != expected_output || input.numel() != expected_input) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "expected ",
        expected_output,
        " output and ",
        expected_input,
        " input elements, got ",
        output.numel(),
        " and ",
        input.numel(),
        ". Fix: size them by zero::chunk_range"));
  }
}

void check_rank(const Group& group, CommOp op, int rank) {
  if (rank < 0 || rank >= group.size()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "rank ",
        rank,
        " is out of range: expected 0 to ",
        group.size() - 1,
        ". Fix: use a rank of this communicator, not of the world"));
  }
}

void check_peer(const Group& group, CommOp op, int rank) {
  check_rank(group, op, rank);
  if (rank == group.rank()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "rank ",
        rank,
        " is this rank itself. Fix: copy the tensor instead"));
  }
}

void check_is_cpu(const Group& group, CommOp op, const at::Tensor& tensor) {
  if (!tensor.is_cpu()) {
    throw ConfigError(c10::str(
        prefix(group, op),
        "not there yet for CUDA tensors. Fix: move them with .cpu(), or use "
        "send and recv"));
  }
}

comm::NcclGroup& nccl_for(Group& group, CommOp op, const at::Tensor& tensor) {
  return group.nccl(op, tensor.device());
}

// The chunk of a buffer that is this rank's, in its place.
at::Tensor own_chunk(const Group& group, const at::Tensor& tensor) {
  const auto range = chunk_range(tensor.numel(), group.rank(), group.size());
  return tensor.view({-1}).narrow(0, range.offset, range.numel);
}

} // namespace

ChunkRange chunk_range(int64_t numel, int rank, int size) {
  if (numel < 0 || rank < 0 || rank >= size) {
    throw ConfigError(c10::str(
        "chunk_range: expected 0 <= rank < size and no negative number of "
        "elements, got rank ",
        rank,
        " of ",
        size,
        " and ",
        numel,
        " elements. Fix: pass rank() and size() of one communicator"));
  }
  const int64_t chunk = numel / size + (numel % size != 0 ? 1 : 0);
  const int64_t offset = std::min(numel, chunk * rank);
  return {offset, std::min(chunk, numel - offset)};
}

Work::Work(std::shared_ptr<Group> group, std::shared_ptr<Operation> operation)
    : group_(std::move(group)), operation_(std::move(operation)) {}

void Work::wait() {
  if (operation_) {
    group_->progress().wait(operation_);
  }
}

bool Work::done() const {
  return !operation_ || operation_->done || group_->progress().poll(operation_);
}

Communicator::Communicator(std::shared_ptr<Group> group)
    : group_(std::move(group)) {}

int Communicator::rank() const {
  return group_->rank();
}

int Communicator::size() const {
  return group_->size();
}

Work Communicator::start(std::shared_ptr<Operation> operation) {
  group_->progress().submit(operation);
  return {group_, std::move(operation)};
}

Work Communicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  check_tensor(*group_, CommOp::all_reduce, tensor);
  if (tensor.is_cuda()) {
    return start(
        nccl_for(*group_, CommOp::all_reduce, tensor).all_reduce(tensor, op));
  }
  return start(comm::all_reduce(*group_, tensor, op));
}

Work Communicator::reduce_scatter(const at::Tensor& tensor, ReduceOp op) {
  check_tensor(*group_, CommOp::reduce_scatter, tensor);
  return reduce_scatter(own_chunk(*group_, tensor), tensor, op);
}

Work Communicator::reduce_scatter(
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  check_tensor(*group_, CommOp::reduce_scatter, output);
  check_tensor(*group_, CommOp::reduce_scatter, input);
  check_sizes(
      *group_,
      CommOp::reduce_scatter,
      output,
      chunk_range(input.numel(), rank(), size()).numel,
      input,
      input.numel());
  if (input.is_cuda()) {
    return start(nccl_for(*group_, CommOp::reduce_scatter, input)
                     .reduce_scatter(output, input, op));
  }
  return start(comm::reduce_scatter(*group_, output, input, op));
}

Work Communicator::all_gather(const at::Tensor& tensor) {
  check_tensor(*group_, CommOp::all_gather, tensor);
  return all_gather(tensor, own_chunk(*group_, tensor));
}

Work Communicator::all_gather(
    const at::Tensor& output,
    const at::Tensor& input) {
  check_tensor(*group_, CommOp::all_gather, output);
  check_tensor(*group_, CommOp::all_gather, input);
  check_sizes(
      *group_,
      CommOp::all_gather,
      output,
      output.numel(),
      input,
      chunk_range(output.numel(), rank(), size()).numel);
  if (output.is_cuda()) {
    return start(nccl_for(*group_, CommOp::all_gather, output)
                     .all_gather(output, input));
  }
  return start(comm::all_gather(*group_, output, input));
}

Work Communicator::broadcast(const at::Tensor& tensor, int root) {
  check_tensor(*group_, CommOp::broadcast, tensor);
  check_rank(*group_, CommOp::broadcast, root);
  if (tensor.is_cuda()) {
    return start(
        nccl_for(*group_, CommOp::broadcast, tensor).broadcast(tensor, root));
  }
  return start(comm::broadcast(*group_, tensor, root));
}

Work Communicator::all_to_all(const at::Tensor& tensor) {
  check_tensor(*group_, CommOp::all_to_all, tensor);
  check_is_cpu(*group_, CommOp::all_to_all, tensor);
  if (tensor.numel() % size() != 0) {
    throw ConfigError(c10::str(
        prefix(*group_, CommOp::all_to_all),
        "in place needs a size that divides by ",
        size(),
        " ranks, got ",
        tensor.numel(),
        " elements. Fix: use all_to_all(output, input)"));
  }
  return start(comm::make_all_to_all(group_->context(), tensor, tensor));
}

Work Communicator::all_to_all(
    const at::Tensor& output,
    const at::Tensor& input) {
  check_tensor(*group_, CommOp::all_to_all, output);
  check_tensor(*group_, CommOp::all_to_all, input);
  check_sizes(
      *group_,
      CommOp::all_to_all,
      output,
      size() * chunk_range(input.numel(), rank(), size()).numel,
      input,
      input.numel());
  check_is_cpu(*group_, CommOp::all_to_all, input);
  return start(comm::make_all_to_all(group_->context(), output, input));
}

Work Communicator::send(const at::Tensor& tensor, int rank) {
  check_tensor(*group_, CommOp::send, tensor);
  check_peer(*group_, CommOp::send, rank);
  if (tensor.is_cuda()) {
    return start(nccl_for(*group_, CommOp::send, tensor).send(tensor, rank));
  }
  return start(comm::make_send(
      group_->segment(),
      group_->reach(),
      group_->rank(),
      rank,
      group_->produced(rank),
      tensor));
}

Work Communicator::recv(const at::Tensor& tensor, int rank) {
  check_tensor(*group_, CommOp::recv, tensor);
  check_peer(*group_, CommOp::recv, rank);
  if (tensor.is_cuda()) {
    return start(nccl_for(*group_, CommOp::recv, tensor).recv(tensor, rank));
  }
  return start(comm::make_recv(
      group_->segment(),
      group_->reach(),
      group_->rank(),
      rank,
      group_->consumed(rank),
      tensor));
}

void Communicator::barrier() {
  start(comm::make_barrier(group_->context())).wait();
}

Window Communicator::window(int64_t bytes) {
  return Window(comm::make_window(group_, bytes));
}

Communicator Communicator::split(int color, int key) {
  return Communicator(group_->split(color, key));
}

Communicator Communicator::shrink() {
  return Communicator(group_->shrink());
}

OperationTraffic Communicator::traffic(CommOp op) const {
  return group_->traffic()->get(op);
}

void Communicator::reset_traffic() {
  group_->traffic()->reset();
}

} // namespace zero
