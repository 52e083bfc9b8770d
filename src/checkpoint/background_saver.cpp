#include "checkpoint/background_saver.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "checkpoint/vote.h"

namespace zero::checkpoint {

BackgroundSaver::BackgroundSaver(const std::shared_ptr<comm::Group>& group)
    : trained_by_(group), group_(group->split(0, group->rank())) {}

BackgroundSaver::~BackgroundSaver() {
  wait();
}

void BackgroundSaver::wait() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void BackgroundSaver::copy(Snapshot& snapshot) {
  if (base::failpoint("save.copy") != 0) {
    throw std::bad_alloc();
  }
  size_t bytes = 0;
  for (const auto& tensor : snapshot.tensors) {
    for (const auto& part : tensor.parts) {
      bytes += static_cast<size_t>(part.range.numel()) *
          c10::elementSize(tensor.dtype);
    }
  }
  copy_.resize(bytes);
  std::byte* to = copy_.data();
  for (auto& tensor : snapshot.tensors) {
    for (auto& part : tensor.parts) {
      const size_t count = static_cast<size_t>(part.range.numel()) *
          c10::elementSize(tensor.dtype);
      std::memcpy(to, part.data, count);
      part.data = to;
      to += count;
    }
  }
  snapshot.kept.clear();
}

std::shared_future<std::string> BackgroundSaver::begin(
    Destination destination,
    Snapshot snapshot) {
  wait();
  // One rank alone may have no memory for it; the others are about to save.
  auto copied = attempt([&] { copy(snapshot); });
  std::promise<std::string> promise;
  auto result = promise.get_future().share();
  thread_ = std::thread([this,
                         destination = std::move(destination),
                         snapshot = std::move(snapshot),
                         copied = std::move(copied),
                         promise = std::move(promise)]() mutable {
    try {
      require_all(*group_, copied, "save_async: copy what is to be saved");
      promise.set_value(write_checkpoint(*group_, destination, snapshot));
    } catch (const std::exception& error) {
      promise.set_exception(std::current_exception());
      if (group_->rank() == 0) { // whether or not anybody asks
        base::log_warning(
            group_->rank(),
            group_->size(),
            c10::str("a checkpoint was not saved: ", base::message_of(error)));
      }
    }
  });
  return result;
}

} // namespace zero::checkpoint
