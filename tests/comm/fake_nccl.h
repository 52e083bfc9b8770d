// Defines a module for NCCL that works on the CPU's memory, for ranks that are
// threads: what NcclGroup asks for is done as NCCL documents it, and kept for
// the test to look at.
//
//   comm::NcclGroup group(..., fake_nccl::kModule, no_stream);
//   FakeNccl::get().last->calls[0]; // rank 0's, with their arguments
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/nccl/module.h"

namespace zero::test {

// What the ranks of one communicator have called, in the order of each.
struct FakeBoard {
  std::vector<std::vector<ZeroNcclCall>> calls; // by rank
  std::vector<std::vector<std::string>> names;
  size_t num_done = 0;
  std::map<std::pair<int, int>, std::vector<ZeroNcclCall>> sent; // from, to
  std::map<std::pair<int, int>, size_t> received;
};

// One for all ranks; a test resets it.
struct FakeNccl {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<FakeBoard>> boards;
  std::atomic<int> num_ids = 0;
  std::atomic<int> num_open = 0;
  std::atomic<int> num_events = 0;
  std::atomic<bool> no_id = false;
  std::atomic<int> fails_to_open = -1; // the rank
  std::atomic<bool> never_connects = false;
  std::atomic<bool> breaks_down = false;
  // Whether a call counts as taken before the collective has run. Otherwise
  // not, since what torch copies afterwards is not on a stream here.
  std::atomic<bool> takes_at_once = false;
  std::shared_ptr<FakeBoard> last;

  static FakeNccl& get() {
    static FakeNccl fake;
    return fake;
  }
  static void reset() {
    auto& fake = get();
    const std::lock_guard lock(fake.mutex);
    fake.boards.clear();
    fake.num_ids = 0;
    fake.num_open = 0;
    fake.num_events = 0;
    fake.no_id = false;
    fake.fails_to_open = -1;
    fake.never_connects = false;
    fake.breaks_down = false;
    fake.takes_at_once = false;
  }
};

} // namespace zero::test

struct ZeroNcclComm {
  std::shared_ptr<zero::test::FakeBoard> board;
  int rank = 0;
  int device = 0;
};

struct ZeroNcclEvent {
  std::shared_ptr<zero::test::FakeBoard> board;
  size_t collectives = 0; // that are to be done
};

namespace zero::test::fake_nccl {

inline at::ScalarType dtype_of(ZeroNcclType type) {
  constexpr std::array kTypes{
      at::kChar,
      at::kByte,
      at::kInt,
      at::kLong,
      at::kHalf,
      at::kBFloat16,
      at::kFloat,
      at::kDouble};
  return kTypes.at(static_cast<size_t>(type));
}

inline at::Tensor tensor_at(const void* data, size_t numel, ZeroNcclType type) {
  return at::from_blob(
      const_cast<void*>(data),
      {static_cast<int64_t>(numel)},
      at::TensorOptions(dtype_of(type)));
}

inline at::Tensor reduce(ZeroNcclOp op, const at::Tensor& stacked) {
  switch (op) {
    case ZeroNcclOp::sum:
      return stacked.sum(0, false, stacked.scalar_type());
    case ZeroNcclOp::mean:
      return stacked.sum(0, false, stacked.scalar_type()) / stacked.size(0);
    case ZeroNcclOp::max:
      return stacked.amax(0);
    case ZeroNcclOp::min:
      return stacked.amin(0);
    default:
      return stacked.prod(0);
  }
}

// The collective that every rank has come to.
inline void run(
    const std::string& name,
    const std::vector<ZeroNcclCall>& calls) {
  const auto size = calls.size();
  const auto& first = calls.front();
  std::vector<at::Tensor> inputs;
  for (const auto& call : calls) {
    const size_t numel =
        name == "reduce_scatter" ? call.numel * size : call.numel;
    inputs.push_back(tensor_at(call.input, numel, call.type).clone());
  }
  at::Tensor result;
  if (name == "broadcast") {
    result = inputs.at(static_cast<size_t>(first.rank));
  } else if (name == "all_gather") {
    result = at::cat(inputs);
  } else {
    result = reduce(first.op, at::stack(inputs));
  }
  for (size_t rank = 0; rank < size; ++rank) {
    const auto& call = calls[rank];
    const auto numel = static_cast<int64_t>(call.numel);
    const at::Tensor own = name == "reduce_scatter"
        ? result.narrow(0, static_cast<int64_t>(rank) * numel, numel)
        : result;
    tensor_at(call.output, static_cast<size_t>(own.numel()), call.type)
        .copy_(own);
  }
}

inline int collective(
    const char* name,
    ZeroNcclComm* comm,
    const ZeroNcclCall* call) {
  const std::lock_guard lock(FakeNccl::get().mutex);
  auto& board = *comm->board;
  const auto own = static_cast<size_t>(comm->rank);
  board.calls[own].push_back(*call);
  board.names[own].emplace_back(name);
  for (;;) {
    std::vector<ZeroNcclCall> all;
    for (const auto& calls : board.calls) {
      if (calls.size() > board.num_done) {
        all.push_back(calls[board.num_done]);
      }
    }
    if (all.size() < board.calls.size()) {
      return 0;
    }
    run(board.names[own][board.num_done], all);
    ++board.num_done;
  }
}

template <char kind>
int collective_of(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  const char* name = kind == 'r' ? "all_reduce"
      : kind == 'g'              ? "all_gather"
      : kind == 's'              ? "reduce_scatter"
                                 : "broadcast";
  return collective(name, comm, call);
}

inline int send(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  const std::lock_guard lock(FakeNccl::get().mutex);
  comm->board->sent[{comm->rank, call->rank}].push_back(*call);
  return 0;
}

// The test has sent it before.
inline int recv(ZeroNcclComm* comm, const ZeroNcclCall* call) {
  const std::lock_guard lock(FakeNccl::get().mutex);
  const std::pair channel{call->rank, comm->rank};
  const auto& sent =
      comm->board->sent[channel].at(comm->board->received[channel]++);
  std::memcpy(
      call->output,
      sent.input,
      sent.numel * c10::elementSize(dtype_of(sent.type)));
  return 0;
}

inline int make_id(void* id) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  if (fake.no_id) {
    return -1;
  }
  std::memset(id, 'a' + fake.num_ids++, kZeroNcclIdBytes);
  return 0;
}

inline ZeroNcclComm* open(const void* id, int rank, int size, int device) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  if (fake.fails_to_open == rank) {
    return nullptr;
  }
  const std::string name(static_cast<const char*>(id), kZeroNcclIdBytes);
  auto& board = fake.boards[name];
  if (!board) {
    board = std::make_shared<FakeBoard>();
    board->calls.resize(static_cast<size_t>(size));
    board->names.resize(static_cast<size_t>(size));
    fake.last = board;
  }
  ++fake.num_open;
  return new ZeroNcclComm{board, rank, device};
}

inline ZeroNcclState state(ZeroNcclComm* comm) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  if (fake.breaks_down) {
    return ZeroNcclState::failed;
  }
  const auto& calls = comm->board->calls[static_cast<size_t>(comm->rank)];
  const bool has_run = comm->board->num_done >= calls.size();
  return !fake.never_connects && (has_run || fake.takes_at_once)
      ? ZeroNcclState::done
      : ZeroNcclState::under_way;
}

inline void close(ZeroNcclComm* comm) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  --fake.num_open;
  delete comm;
}

inline ZeroNcclEvent* record(ZeroNcclComm* comm, void*) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  ++fake.num_events;
  const auto own = static_cast<size_t>(comm->rank);
  return new ZeroNcclEvent{comm->board, comm->board->calls[own].size()};
}

inline ZeroNcclState poll(ZeroNcclEvent* event) {
  const std::lock_guard lock(FakeNccl::get().mutex);
  return event->board->num_done >= event->collectives
      ? ZeroNcclState::done
      : ZeroNcclState::under_way;
}

inline void close_event(ZeroNcclEvent* event) {
  auto& fake = FakeNccl::get();
  const std::lock_guard lock(fake.mutex);
  --fake.num_events;
  delete event;
}

inline const ZeroNcclModule kModule = {
    kZeroNcclModuleVersion,
    [] { return "fake"; },
    [] { return "the fake says so"; },
    make_id,
    open,
    state,
    collective_of<'r'>,
    collective_of<'g'>,
    collective_of<'s'>,
    collective_of<'b'>,
    send,
    recv,
    close,
    record,
    poll,
    close_event};

} // namespace zero::test::fake_nccl
