// Defines NcclOperation: what NCCL has been given to do, and when it is done.
// NcclGroup makes it, Progress asks it. See Note [Collectives on a stream].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/nccl/module.h"
#include "comm/shm/operation.h"

namespace zero::comm {

class NcclGroup;

// How a message about NCCL ends.
inline constexpr const char* kNcclFix =
    ". Fix: see which rank or GPU has failed; with NCCL_DEBUG=INFO NCCL says "
    "more";

class NcclOperation final : public Operation {
 public:
  struct CloseEvent {
    const ZeroNcclModule* module;
    void operator()(ZeroNcclEvent* event) const {
      module->close_event(event);
    }
  };
  using Event = std::unique_ptr<ZeroNcclEvent, CloseEvent>;

  struct Options {
    Signature signature;
    Event event; // null: NCCL has ended, so that this cannot be run
    std::vector<at::Tensor> kept; // what it works on
    int64_t bytes_received = 0;
  };

  NcclOperation(NcclGroup& group, Options options)
      : Operation(options.signature),
        group_(group),
        options_(std::move(options)) {}

  bool advance() override;
  bool complete() const override {
    return is_complete_;
  }
  bool owes() const override {
    return false; // the GPU needs nobody to go on
  }
  bool is_silent() const override {
    return true;
  }
  void give_up() override;
  std::vector<int> awaited() const override;
  int64_t bytes_received() const override {
    return options_.bytes_received;
  }

 private:
  NcclGroup& group_;
  Options options_;
  bool is_complete_ = false;
};

} // namespace zero::comm
