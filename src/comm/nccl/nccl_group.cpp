#include "comm/nccl/nccl_group.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/nccl/nccl_operation.h"
#include "comm/shm/group.h"
#include "comm/shm/patience.h"

namespace zero::comm {

namespace {

ZeroNcclType nccl_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Char:
      return ZeroNcclType::int8;
    case c10::ScalarType::Byte:
      return ZeroNcclType::uint8;
    case c10::ScalarType::Int:
      return ZeroNcclType::int32;
    case c10::ScalarType::Long:
      return ZeroNcclType::int64;
    case c10::ScalarType::Half:
      return ZeroNcclType::float16;
    case c10::ScalarType::BFloat16:
      return ZeroNcclType::bfloat16;
    case c10::ScalarType::Float:
      return ZeroNcclType::float32;
    case c10::ScalarType::Double:
      return ZeroNcclType::float64;
    default:
      ZERO_CHECK(false, "NCCL has no type for ", dtype);
  }
}

ZeroNcclOp nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ZeroNcclOp::sum;
    case ReduceOp::mean:
      return ZeroNcclOp::mean;
    case ReduceOp::max:
      return ZeroNcclOp::max;
    case ReduceOp::min:
      return ZeroNcclOp::min;
  }
  ZERO_CHECK(false, "NCCL has no reduction ", static_cast<int>(op));
}

ZeroNcclCall call_on(
    const at::Tensor& output,
    const at::Tensor& input,
    int64_t numel) {
  return {
      .input = input.const_data_ptr(),
      .output = output.mutable_data_ptr(),
      .numel = static_cast<size_t>(numel),
      .type = nccl_type(input.scalar_type()),
      .op = ZeroNcclOp::sum,
      .rank = -1,
      .stream = nullptr};
}

} // namespace

NcclGroup::NcclGroup(
    Group& group,
    CommOp purpose,
    c10::Device device,
    const ZeroNcclModule& module,
    StreamOf stream_of)
    : group_(group),
      device_(device),
      module_(module),
      stream_of_(stream_of),
      comm_(nullptr, CloseComm{&module}) {
  open(purpose);
}

void NcclGroup::open(CommOp purpose) {
  // A rank that cannot go on says so, since the others would wait for it.
  const auto agree = [&](bool succeeded, const std::vector<int64_t>& words) {
    const std::string reason = succeeded ? "" : module_.error();
    std::vector<int64_t> own(words);
    own.push_back(succeeded ? 1 : 0);
    auto all = group_.exchange(purpose, own);
    if (!succeeded) {
      throw CommError(c10::str(
          prefix(purpose),
          "NCCL does not start on ",
          device_.str(),
          ": ",
          reason,
          ". Fix: give each rank a GPU of its own that nvidia-smi shows, or "
          "move the tensors with .cpu()"));
    }
    for (size_t rank = 0; rank < all.size() / own.size(); ++rank) {
      if (all[(rank + 1) * own.size() - 1] == 0) {
        throw CommError(c10::str(
            prefix(purpose),
            "NCCL does not start on rank ",
            rank,
            ", whose own message says why"));
      }
    }
    return all; // rank 0's words come first
  };

  std::array<int64_t, kZeroNcclIdBytes / sizeof(int64_t)> id = {};
  const bool has_id = group_.rank() != 0 || module_.make_id(id.data()) >= 0;
  const auto ids = agree(has_id, {id.begin(), id.end()});
  std::copy_n(ids.begin(), id.size(), id.begin());
  comm_.reset(module_.open(
      id.data(), group_.rank(), group_.size(), int{device_.index()}));
  agree(comm_ != nullptr, {});
  wait_until_taken(purpose);
}

void NcclGroup::require_device(CommOp op, c10::Device device) const {
  if (device != device_) {
    throw ConfigError(c10::str(
        prefix(op),
        "expected a tensor on ",
        device_.str(),
        ", where this rank's first one was, got one on ",
        device.str(),
        ". Fix: keep a rank's tensors on one GPU"));
  }
}

int NcclGroup::rank() const {
  return group_.rank();
}

int NcclGroup::size() const {
  return group_.size();
}

std::string NcclGroup::prefix(CommOp op) const {
  return c10::str(
      base::rank_prefix(group_.rank(), group_.size()), zero::name_of(op), ": ");
}

int64_t NcclGroup::numel_of_chunk(const at::Tensor& whole) const {
  return chunk_range(whole.numel(), 0, group_.size()).numel;
}

void NcclGroup::enqueue(
    CommOp op,
    ZeroNcclFunction function,
    ZeroNcclCall call) {
  if (!comm_) {
    return; // what watch() makes of it fails in its turn
  }
  call.stream = stream_of_(device_);
  if (function(comm_.get(), &call) < 0) {
    const std::string reason = module_.error();
    end();
    throw CommError(c10::str(prefix(op), reason, kNcclFix));
  }
  wait_until_taken(op);
}

// NCCL connects ranks when they first need it. Until it has, the stream does
// not have the collective, so that the caller must not go on.
void NcclGroup::wait_until_taken(CommOp op) {
  const auto begin = base::Clock::now();
  const double limit = group_.membership()->progress_timeout_seconds();
  for (int round = 0;; ++round) {
    const auto state = module_.state(comm_.get());
    if (state == ZeroNcclState::done) {
      return;
    }
    if (state == ZeroNcclState::failed) {
      const std::string reason = module_.error();
      end();
      throw CommError(c10::str(prefix(op), reason, kNcclFix));
    }
    const auto lost = group_.lost_ranks();
    if (!lost.empty()) {
      end();
      throw PeerLost(
          c10::str(
              prefix(op),
              "rank ",
              lost.front(),
              " is lost: ",
              group_.epitaph(lost.front()),
              ". Fix: call shrink() on every survivor to go on without it"),
          {lost.front(), zero::name_of(op), -1});
    }
    if (base::seconds_since(begin) >= limit) {
      end();
      throw CommTimeout(
          c10::str(
              prefix(op),
              "waited ",
              limit,
              " s for NCCL to connect the ranks, which are alive. Fix: make "
              "sure every rank calls it with a CUDA tensor; with "
              "NCCL_DEBUG=INFO NCCL says more"),
          {-1, zero::name_of(op), -1});
    }
    if (round < kYields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kLook);
    }
  }
}

NcclGroup::Ptr NcclGroup::watch(
    const Signature& signature,
    std::vector<at::Tensor> kept,
    int64_t bytes) {
  NcclOperation::Event event(nullptr, {&module_});
  if (comm_) {
    event.reset(module_.record(comm_.get(), stream_of_(device_)));
    if (!event) {
      const std::string reason = module_.error();
      end();
      throw CommError(c10::str(prefix(signature.op), reason, kNcclFix));
    }
  }
  return std::make_shared<NcclOperation>(
      *this,
      NcclOperation::Options{
          .signature = signature,
          .event = std::move(event),
          .kept = std::move(kept),
          .bytes_received = bytes});
}

// Whoever drives asks, and must not wait for a thread that is connecting.
std::string NcclGroup::complaint() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return "";
  }
  if (!comm_) {
    // Progress has a better one where a rank is lost.
    return group_.lost_ranks().empty()
        ? "NCCL was ended by an operation that failed before. Fix: call "
          "shrink() on every rank that is left, and use what it returns"
        : "";
  }
  return module_.state(comm_.get()) == ZeroNcclState::failed
      ? c10::str(module_.error(), kNcclFix)
      : "";
}

void NcclGroup::close() {
  const std::lock_guard lock(mutex_);
  end();
}

void NcclGroup::end() {
  is_ended_ = true; // first: what ends now has no result
  comm_.reset();
}

NcclGroup::Ptr NcclGroup::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  const std::lock_guard lock(mutex_);
  auto call = call_on(tensor, tensor, tensor.numel());
  call.op = nccl_op(op);
  enqueue(CommOp::all_reduce, module_.all_reduce, call);
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const auto chunk =
      chunk_range(tensor.numel(), group_.rank(), group_.size()).numel *
      tensor.element_size();
  return watch(
      signature_of(CommOp::all_reduce, tensor, op),
      {tensor},
      (group_.size() - 2) * chunk + bytes);
}

// NCCL's chunks are all of one size: where ours are not, a padded buffer stands
// in, which torch's allocator takes back when the stream is done with it.
NcclGroup::Ptr NcclGroup::reduce_scatter(
    const at::Tensor& output,
    const at::Tensor& input,
    ReduceOp op) {
  const std::lock_guard lock(mutex_);
  const c10::AutoGradMode no_grad(false);
  const int64_t chunk = numel_of_chunk(input);
  const bool is_even = input.numel() == chunk * group_.size();
  at::Tensor whole = input;
  at::Tensor own = output;
  if (!is_even) {
    whole = at::empty({chunk * group_.size()}, input.options());
    whole.narrow(0, 0, input.numel()).copy_(input.view({-1}));
    own = whole.narrow(0, chunk * group_.rank(), chunk);
  }
  auto call = call_on(own, whole, chunk);
  call.op = nccl_op(op);
  enqueue(CommOp::reduce_scatter, module_.reduce_scatter, call);
  if (!is_even) {
    output.view({-1}).copy_(own.narrow(0, 0, output.numel()));
  }
  return watch(
      signature_of(CommOp::reduce_scatter, input, op),
      {output, input},
      (group_.size() - 1) * static_cast<int64_t>(output.nbytes()));
}

NcclGroup::Ptr NcclGroup::all_gather(
    const at::Tensor& output,
    const at::Tensor& input) {
  const std::lock_guard lock(mutex_);
  const c10::AutoGradMode no_grad(false);
  const int64_t chunk = numel_of_chunk(output);
  const bool is_even = output.numel() == chunk * group_.size();
  at::Tensor whole = output;
  at::Tensor own = input;
  if (!is_even) {
    whole = at::empty({chunk * group_.size()}, output.options());
    own = whole.narrow(0, chunk * group_.rank(), chunk);
    own.narrow(0, 0, input.numel()).copy_(input.view({-1}));
  }
  enqueue(CommOp::all_gather, module_.all_gather, call_on(whole, own, chunk));
  if (!is_even) {
    output.view({-1}).copy_(whole.narrow(0, 0, output.numel()));
  }
  return watch(
      signature_of(CommOp::all_gather, output),
      {output, input},
      static_cast<int64_t>(output.nbytes() - input.nbytes()));
}

NcclGroup::Ptr NcclGroup::broadcast(const at::Tensor& tensor, int root) {
  const std::lock_guard lock(mutex_);
  auto call = call_on(tensor, tensor, tensor.numel());
  call.rank = root;
  enqueue(CommOp::broadcast, module_.broadcast, call);
  return watch(
      signature_of(CommOp::broadcast, tensor, ReduceOp::sum, root),
      {tensor},
      root == group_.rank() ? 0 : static_cast<int64_t>(tensor.nbytes()));
}

NcclGroup::Ptr NcclGroup::send(const at::Tensor& tensor, int rank) {
  const std::lock_guard lock(mutex_);
  auto call = call_on(tensor, tensor, tensor.numel());
  call.rank = rank;
  enqueue(CommOp::send, module_.send, call);
  return watch(
      signature_of(CommOp::send, tensor, ReduceOp::sum, rank), {tensor}, 0);
}

NcclGroup::Ptr NcclGroup::recv(const at::Tensor& tensor, int rank) {
  const std::lock_guard lock(mutex_);
  auto call = call_on(tensor, tensor, tensor.numel());
  call.rank = rank;
  enqueue(CommOp::recv, module_.recv, call);
  return watch(
      signature_of(CommOp::recv, tensor, ReduceOp::sum, rank),
      {tensor},
      static_cast<int64_t>(tensor.nbytes()));
}

} // namespace zero::comm
