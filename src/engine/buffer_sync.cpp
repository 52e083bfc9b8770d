#include "engine/buffer_sync.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include "base/alignment.h"
#include "base/error.h"

namespace zero::engine {

namespace {

// Calls visit(buffer, its place in the window).
template <class Visit>
int64_t for_each_place(
    const std::vector<shard::Parameter>& buffers,
    std::byte* window,
    Visit visit) {
  int64_t offset = 0;
  for (const auto& buffer : buffers) {
    visit(buffer.tensor, window + offset);
    const auto bytes = static_cast<int64_t>(buffer.tensor.nbytes());
    offset += base::round_up(bytes, base::kCacheLine);
  }
  return offset;
}

at::Tensor tensor_at(const at::Tensor& like, std::byte* place) {
  return at::from_blob(
      place, like.sizes(), at::TensorOptions(like.scalar_type()));
}

} // namespace

BufferSync::BufferSync(
    std::vector<shard::Parameter> buffers,
    const std::shared_ptr<comm::Group>& group)
    : buffers_(std::move(buffers)),
      rank_(group->rank()),
      bytes_(for_each_place(buffers_, nullptr, [](const auto&, auto*) {})) {
  for (const auto& buffer : buffers_) {
    shapes_.push_back(
        {buffer.tensor.scalar_type(), buffer.tensor.sizes().vec()});
  }
  window_ =
      comm::make_window(group, rank_ == 0 ? base::kCacheLine + 2 * bytes_ : 0);
}

void BufferSync::check(const std::string& prefix) const {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto& tensor = buffers_[i].tensor;
    const auto& [dtype, sizes] = shapes_[i];
    if (tensor.sizes() != sizes || tensor.scalar_type() != dtype) {
      throw ConfigError(c10::str(
          prefix,
          "buffer '",
          buffers_[i].name(),
          "' has sizes ",
          tensor.sizes(),
          " and type ",
          tensor.scalar_type(),
          ", when the engine was made ",
          at::IntArrayRef(sizes),
          " and ",
          dtype,
          ". Fix: keep what grows in a member that is not registered"));
    }
  }
}

// One of two, which take turns.
std::byte* BufferSync::place(uint64_t rounds) const {
  return window_->data(0) + base::kCacheLine +
      static_cast<int64_t>(rounds % 2) * bytes_;
}

// 1 + after how many rounds it is what is in that place; 0 while it is written.
std::atomic<uint64_t>& BufferSync::stamp(uint64_t rounds) const {
  return reinterpret_cast<std::atomic<uint64_t>*>(window_->data(0))[rounds % 2];
}

void BufferSync::offer(uint64_t rounds) const {
  if (rank_ == 0) {
    const c10::InferenceMode may_have_been_made_in_it;
    stamp(rounds) = 0;
    window_->store_word(stamp(rounds));
    for_each_place(
        buffers_, place(rounds), [](const auto& buffer, auto* place) {
          tensor_at(buffer, place).copy_(buffer);
        });
    stamp(rounds) = rounds + 1;
    window_->store(place(rounds), bytes_);
    window_->store_word(stamp(rounds));
  }
}

void BufferSync::take(uint64_t rounds) const {
  if (rank_ != 0) {
    restore(rounds);
  }
}

std::optional<uint64_t> BufferSync::newest(uint64_t rounds) const {
  std::optional<uint64_t> found;
  for (const uint64_t place : {0, 1}) {
    const uint64_t stamped = stamp(place);
    if (stamped > 0 && stamped - 1 <= rounds &&
        (!found || stamped - 1 > *found)) {
      found = stamped - 1;
    }
  }
  return found;
}

void BufferSync::restore(uint64_t rounds) const {
  const c10::InferenceMode may_have_been_made_in_it;
  for_each_place(
      buffers_, place(rounds), [](const at::Tensor& buffer, auto* place) {
        const at::Tensor value = tensor_at(buffer, place);
        // A graph may have saved it: what does not change stays as it is.
        if (!buffer.equal(value)) {
          buffer.copy_(value);
        }
      });
}

} // namespace zero::engine
