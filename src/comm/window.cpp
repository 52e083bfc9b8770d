#include <ATen/ops/from_blob.h>
#include <zero/communicator.h>

#include <algorithm>
#include <utility>

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
    int64_t bytes,
    const WindowOptions& options) {
  const auto wishes =
      group->exchange(CommOp::window, {bytes, group->proposed_number()});
  std::vector<int64_t> proposed;
  auto state = std::make_shared<WindowState>();
  state->rank = group->rank();
  state->size = group->size();
  state->traffic = group->traffic();
  for (size_t i = 0; i < wishes.size(); i += 2) {
    state->bytes.push_back(wishes[i]);
    proposed.push_back(wishes[i + 1]);
  }
  const uint32_t number = group->take_number(proposed);
  int64_t total = 0;
  int64_t total_here = 0;
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
    total_here += group->reach().is_here(rank) ? part : 0;
  }
  const auto own = static_cast<size_t>(group->rank());
  total_here += options.kept_bytes_here;
  const bool lacks_common = !group->reach().is_here(0);
  total_here += lacks_common ? options.common_bytes : 0;
  const SparsePart& sparse = options.sparse;
  total_here += sparse.bytes_here - (lacks_common ? 0 : sparse.bytes);
  state->mapping = group->share(
      CommOp::window,
      group->leader_here(),
      [&] {
        // Each rank reserves its own part; together they have to fit.
        if (total_here > base::available_memory()) {
          const auto most =
              std::max_element(state->bytes.begin(), state->bytes.end());
          throw IoError(c10::str(
              base::rank_prefix(group->rank(), group->size()),
              "window: no memory for ",
              total_here,
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
        const int64_t skipped =
            group->rank() == 0 ? base::round_up(sparse.bytes, kPage) : 0;
        mapping.reserve(
            static_cast<size_t>(state->offsets[own] + skipped),
            static_cast<size_t>(
                std::max<int64_t>(state->bytes[own] - skipped, 0)));
        for (const auto& [begin, bytes_of_range] : sparse.own) {
          mapping.reserve(
              static_cast<size_t>(begin), static_cast<size_t>(bytes_of_range));
        }
        for (const auto& [rank, begin, kept_bytes] : options.kept) {
          mapping.reserve(
              static_cast<size_t>(
                  state->offsets[static_cast<size_t>(rank)] + begin),
              static_cast<size_t>(kept_bytes));
        }
        if (lacks_common && group->rank() == group->leader_here()) {
          mapping.reserve(0, static_cast<size_t>(options.common_bytes));
        }
      });
  if (sparse.bytes == 0) {
    state->mapping->close_address();
  }
  if (!group->reach().is_one_host()) {
    state->reach = group->reach().with_number(number);
    state->group = group;
    state->has_copies = options.has_copies;
    // The mirror calls it no more when the window is gone.
    state->reach->add(
        state->mapping, [arrived = options.arrived, window = state.get()] {
          if (arrived) {
            arrived(*window);
          }
        });
  }
  group->add_window(state);
  return state;
}

namespace {

constexpr auto kReadBytes = static_cast<int64_t>(Mirror::kPartBytes);

} // namespace

WindowReading::WindowReading(
    const WindowState& window,
    std::vector<WindowRead> reads)
    : window_(window), reads_(std::move(reads)) {
  for (const auto& read : reads_) {
    if (window_.is_here(read.rank)) {
      continue;
    }
    for (int64_t begin = 0; begin < read.bytes; begin += kReadBytes) {
      ask({.rank = read.rank,
           .place = read.place + begin,
           .to = read.to + begin,
           .bytes = std::min(kReadBytes, read.bytes - begin)},
          read.rank);
    }
  }
}

void WindowReading::ask(const WindowRead& read, int rank) {
  {
    const std::lock_guard lock(mutex_);
    ++num_open_;
  }
  window_.reach->read(
      static_cast<size_t>(read.place - window_.mapping->data()),
      read.to,
      static_cast<size_t>(read.bytes),
      rank,
      [this, read, rank](bool is_there) {
        const std::lock_guard lock(mutex_);
        --num_open_;
        if (!is_there) {
          unanswered_.push_back({read, rank});
        }
        changed_.notify_all();
      });
}

WindowReading::~WindowReading() {
  wait_for_replies();
}

void WindowReading::wait_for_replies() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return num_open_ == 0; });
}

void WindowReading::wait() {
  for (const auto& read : reads_) {
    if (window_.is_here(read.rank)) {
      copy_bytes(read.to, read.place, read.bytes);
    }
  }
  std::vector<int> lost; // of those that were asked
  for (;;) {
    wait_for_replies();
    // Nothing is open any more: nobody adds to it.
    const auto again = std::exchange(unanswered_, {});
    if (again.empty()) {
      return;
    }
    for (const auto& each : again) {
      lost.push_back(each.asked);
    }
    for (const auto& [read, asked] : again) {
      const int other = window_.who_has(read.rank, lost);
      if (other < 0) {
        window_.throw_lost(asked);
      }
      if (window_.is_here(other)) {
        copy_bytes(read.to, read.place, read.bytes);
      } else {
        ask(read, other);
      }
    }
  }
}

int WindowState::who_has(int rank, const std::vector<int>& but) const {
  const auto alive = group.lock();
  const auto lost = alive ? alive->lost_ranks() : std::vector<int>();
  const auto& hosts = reach->hosts();
  const auto first_on = [&](int host) {
    for (const int other : hosts.ranks_of(host)) {
      if (std::ranges::find(but, other) == but.end() &&
          std::ranges::find(lost, other) == lost.end()) {
        return other;
      }
    }
    return -1;
  };
  const int host = hosts.host_of(rank);
  const int there = first_on(host);
  return there < 0 && has_copies ? first_on(hosts.keeper(host)) : there;
}

void WindowState::throw_if_lost(int awaited) const {
  const auto alive = group.lock();
  const auto lost = alive ? alive->lost_ranks() : std::vector<int>();
  if (std::find(lost.begin(), lost.end(), awaited) != lost.end()) {
    throw_lost(awaited);
  }
}

void WindowState::throw_lost(int lost) const {
  if (const auto alive = group.lock()) {
    const auto all = alive->lost_ranks();
    lost = all.empty() ? lost : all.front();
  }
  throw PeerLost(
      c10::str(
          base::rank_prefix(rank, size),
          "get: rank ",
          lost,
          is_here(lost) ? "" : " on another host",
          " is lost. Fix: start the job again from its last checkpoint"),
      {lost, "get", 0});
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
        "then copy; NCCL has collectives only, so that windows of CUDA memory "
        "are not there yet"));
  }
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  check_range(*state_, rank, offset_bytes, bytes);
  comm::WindowReading(
      *state_,
      {{rank,
        state_->data(rank) + offset_bytes,
        comm::bytes_of(tensor),
        bytes}})
      .wait();
  state_->traffic->count(CommOp::get, rank == state_->rank ? 0 : bytes);
  state_->traffic->count_from_other_hosts(state_->is_here(rank) ? 0 : bytes);
  return {};
}

const void* Window::data(int rank) const {
  check_range(*state_, rank, 0, 0);
  if (!state_->is_here(rank)) {
    throw ConfigError(c10::str(
        base::rank_prefix(state_->rank, state_->size),
        "window: the memory of rank ",
        rank,
        " is on another host, and not in place here. Fix: copy it with get()"));
  }
  return state_->data(rank);
}

int64_t Window::bytes(int rank) const {
  check_range(*state_, rank, 0, 0);
  return state_->bytes[static_cast<size_t>(rank)];
}

} // namespace zero
