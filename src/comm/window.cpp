#include <ATen/ops/from_blob.h>
#include <zero/communicator.h>

#include <algorithm>

#include "base/alignment.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/shm/buffer.h"
#include "comm/signature.h"
#include "comm/window_state.h"

namespace zero {

namespace comm {

using base::kPage;

std::shared_ptr<WindowState> make_window(
    const std::shared_ptr<Group>& group,
    int64_t bytes) {
  auto state = std::make_shared<WindowState>();
  state->rank = group->rank();
  state->size = group->size();
  state->traffic = group->traffic();
  state->bytes = group->exchange(CommOp::window, {bytes});
  int64_t total = 0;
  for (int rank = 0; rank < group->size(); ++rank) {
    const int64_t part = state->bytes[static_cast<size_t>(rank)];
    // Checked after the exchange, so that every rank gets the error.
    if (part < 0 || part > INT64_MAX / 2 - total - kPage) {
      throw ConfigError(c10::str(
          base::rank_prefix(group->rank(), group->size()),
          "window: rank ",
          rank,
          " asked for ",
          part,
          " bytes. Fix: ask for a size that is not negative and fits memory"));
    }
    state->offsets.push_back(total);
    // Parts begin on pages, so that reserving one touches no other.
    total += base::round_up(part, kPage);
  }
  const auto own = static_cast<size_t>(group->rank());
  state->mapping = group->share(
      CommOp::window,
      0,
      [&] {
        // Each rank reserves its own part; together they have to fit.
        if (total > base::available_memory()) {
          const auto most =
              std::max_element(state->bytes.begin(), state->bytes.end());
          throw IoError(c10::str(
              base::rank_prefix(group->rank(), group->size()),
              "window: no memory for ",
              total,
              " bytes that the ranks asked for together, of which rank ",
              most - state->bytes.begin(),
              " asked for ",
              *most,
              ": ",
              base::available_memory(),
              " are available. Fix: ask for less, or free memory"));
        }
        return base::SharedMapping::create(
            "zero-window",
            static_cast<size_t>(std::max(total, kPage)),
            base::SharedMapping::Reserve::none);
      },
      [&](base::SharedMapping& mapping) {
        mapping.reserve(
            static_cast<size_t>(state->offsets[own]),
            static_cast<size_t>(state->bytes[own]));
      });
  state->mapping->close_address();
  group->add_window(state);
  return state;
}

} // namespace comm

namespace {

void check_range(
    const comm::WindowState& state,
    int rank,
    int64_t offset,
    int64_t bytes) {
  if (rank < 0 || rank >= state.size) {
    throw ConfigError(c10::str(
        base::rank_prefix(state.rank, state.size),
        "window: rank ",
        rank,
        " is out of range: expected 0 to ",
        state.size - 1,
        ". Fix: use a rank of the communicator that made the window"));
  }
  const int64_t limit = state.bytes[static_cast<size_t>(rank)];
  if (offset < 0 || bytes < 0 || offset > limit || bytes > limit - offset) {
    throw ConfigError(c10::str(
        base::rank_prefix(state.rank, state.size),
        "window: ",
        bytes,
        " bytes from offset ",
        offset,
        " reach beyond the ",
        limit,
        " bytes of rank ",
        rank,
        ". Fix: read less, or have that rank ask for more"));
  }
}

} // namespace

Window::Window(std::shared_ptr<comm::WindowState> state)
    : state_(std::move(state)) {}

at::Tensor Window::local() const {
  return local(at::kByte, 0, bytes(state_->rank));
}

at::Tensor Window::local(
    at::ScalarType dtype,
    int64_t offset_bytes,
    int64_t numel) const {
  const int rank = state_->rank;
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  check_range(*state_, rank, offset_bytes, 0);
  if (numel < 0 || numel > bytes(rank) / element ||
      offset_bytes % element != 0) {
    throw ConfigError(c10::str(
        base::rank_prefix(rank, state_->size),
        "window: ",
        numel,
        " elements of ",
        comm::name_of(dtype),
        " at offset ",
        offset_bytes,
        " do not fit ",
        bytes(rank),
        " bytes. Fix: align the offset to the type, and stay inside"));
  }
  check_range(*state_, rank, offset_bytes, numel * element);
  // The tensor keeps the memory alive.
  return at::from_blob(
      state_->data(rank) + offset_bytes,
      {numel},
      [state = state_](void*) {},
      at::TensorOptions(dtype));
}

Work Window::get(const at::Tensor& tensor, int rank, int64_t offset_bytes)
    const {
  if (!tensor.defined() || !tensor.device().is_cpu() ||
      tensor.layout() != at::kStrided || !tensor.is_contiguous()) {
    throw ConfigError(c10::str(
        base::rank_prefix(state_->rank, state_->size),
        "get: expected a contiguous tensor on the CPU. Fix: read into one, "
        "then copy"));
  }
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  check_range(*state_, rank, offset_bytes, bytes);
  comm::copy_bytes(
      comm::bytes_of(tensor), state_->data(rank) + offset_bytes, bytes);
  state_->traffic->count(CommOp::get, rank == state_->rank ? 0 : bytes);
  return {};
}

const void* Window::data(int rank) const {
  check_range(*state_, rank, 0, 0);
  return state_->data(rank);
}

int64_t Window::bytes(int rank) const {
  check_range(*state_, rank, 0, 0);
  return state_->bytes[static_cast<size_t>(rank)];
}

} // namespace zero
