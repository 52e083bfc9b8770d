// The module that is compiled for each MPI: see comm/mpi/module.h. It knows
// nothing of libzero or libtorch.
#include "comm/mpi/module.h"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <climits>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
#define ZERO_HAS_ULFM 1
#else
#define ZERO_HAS_ULFM 0
#endif

struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  ZeroMpiState state = ZeroMpiState::under_way;
  size_t bytes = 0;
};

MPI_Comm ranks = MPI_COMM_NULL; // of our own: messages of others do not mix in
bool initialised_here = false;
std::string message;
std::vector<Transfer> transfers;
std::vector<int> free_handles;

bool succeeded(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return true;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  message = std::string(call) + " failed: " + text;
  return false;
}

// Open MPI's TCP writes a message of more than the eager limit into the other's
// memory ("put"), and while it does so in one direction the other one rests: a
// link that carries as much in both directions at once was used by half. Plain
// sends do not rest, and up to the limit nobody is asked before. A user's own
// choice is kept.
void prefer_sends_over_tcp() {
#if defined(OPEN_MPI)
  constexpr int kKeep = 0;
  const std::string limit = std::to_string(kZeroMpiPassagePartBytes + 4096);
  setenv("OMPI_MCA_btl_tcp_flags", "send", kKeep);
  setenv("OMPI_MCA_btl_tcp_eager_limit", limit.c_str(), kKeep);
  setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", limit.c_str(), kKeep);
  setenv("OMPI_MCA_btl_tcp_max_send_size", limit.c_str(), kKeep);
#endif
}

int start() {
  int initialised = 0;
  int level = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    MPI_Query_thread(&level);
  } else {
    prefer_sends_over_tcp();
    if (!succeeded(
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
            "MPI_Init_thread")) {
      return -1;
    }
    initialised_here = true;
    // MPI may write to a socket of a rank that is gone, which is a loss and no
    // reason to end; mpirun sees to it, srun does not.
    struct sigaction pipe {};
    if (sigaction(SIGPIPE, nullptr, &pipe) == 0 && pipe.sa_handler == SIG_DFL) {
      signal(SIGPIPE, SIG_IGN);
    }
    // What fails is an error of libzero's, which says where.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  // A thread of libzero calls MPI, while the program may call it, too.
  const int needed =
      initialised_here ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
  if (level < needed) {
    message = initialised_here
        ? "this MPI cannot be called from another thread than the first"
        : "the program has initialised MPI without MPI_THREAD_MULTIPLE";
    return -1;
  }
  if (!succeeded(MPI_Comm_dup(MPI_COMM_WORLD, &ranks), "MPI_Comm_dup")) {
    return -1;
  }
  MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN);
  return 0;
}

void stop(int is_whole) {
  if (is_whole != 0) {
    MPI_Comm_free(&ranks);
    if (initialised_here) {
      MPI_Finalize();
    }
  }
  ranks = MPI_COMM_NULL;
}

int own_rank() {
  int rank = -1;
  MPI_Comm_rank(ranks, &rank);
  return rank;
}

int num_ranks() {
  int size = 0;
  MPI_Comm_size(ranks, &size);
  return size;
}

int survives_losses() {
#if ZERO_HAS_ULFM
  int* supported = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &supported, &known);
  return known != 0 && supported != nullptr && *supported != 0 ? 1 : 0;
#else
  return 0;
#endif
}

int all_gather(const void* own, size_t bytes, void* all) {
  const int count = static_cast<int>(bytes);
  return succeeded(
             MPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, ranks),
             "MPI_Allgather")
      ? 0
      : -1;
}

int take_handle() {
  if (free_handles.empty()) {
    free_handles.push_back(static_cast<int>(transfers.size()));
    transfers.emplace_back();
  }
  const int handle = free_handles.back();
  free_handles.pop_back();
  transfers[static_cast<size_t>(handle)] = {};
  return handle;
}

Transfer& transfer_of(int handle) {
  return transfers[static_cast<size_t>(handle)];
}

int send_bytes(int to, int tag, const void* data, size_t bytes) {
  const int handle = take_handle();
  Transfer& transfer = transfer_of(handle);
  if (bytes > INT_MAX ||
      !succeeded(
          MPI_Isend(
              data,
              static_cast<int>(bytes),
              MPI_BYTE,
              to,
              tag,
              ranks,
              &transfer.request),
          "MPI_Isend")) {
    transfer.state = ZeroMpiState::failed;
  }
  return handle;
}

int receive_bytes(int from, int tag, void* data, size_t bytes) {
  const int handle = take_handle();
  Transfer& transfer = transfer_of(handle);
  if (bytes > INT_MAX ||
      !succeeded(
          MPI_Irecv(
              data,
              static_cast<int>(bytes),
              MPI_BYTE,
              from,
              tag,
              ranks,
              &transfer.request),
          "MPI_Irecv")) {
    transfer.state = ZeroMpiState::failed;
  }
  return handle;
}

void conclude(Transfer& transfer, int code, const MPI_Status& status) {
  transfer.request = MPI_REQUEST_NULL;
  if (!succeeded(code, "MPI_Testsome")) {
    transfer.state = ZeroMpiState::failed;
    return;
  }
  int was_cancelled = 0;
  MPI_Test_cancelled(&status, &was_cancelled);
  if (was_cancelled != 0) {
    transfer.state = ZeroMpiState::failed;
    return;
  }
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  transfer.bytes = static_cast<size_t>(count < 0 ? 0 : count);
  transfer.state = ZeroMpiState::done;
}

// All at once: to ask for each of them would be as many calls of the system.
void advance_transfers() {
  static std::vector<MPI_Request> requests;
  static std::vector<size_t> handles;
  static std::vector<int> concluded;
  static std::vector<MPI_Status> statuses;
  requests.clear();
  handles.clear();
  for (size_t handle = 0; handle < transfers.size(); ++handle) {
    if (transfers[handle].request != MPI_REQUEST_NULL) {
      requests.push_back(transfers[handle].request);
      handles.push_back(handle);
    }
  }
  concluded.resize(requests.size());
  statuses.resize(requests.size());
  int count = 0;
  const int code = MPI_Testsome(
      static_cast<int>(requests.size()),
      requests.data(),
      &count,
      concluded.data(),
      statuses.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    succeeded(code, "MPI_Testsome");
    count = 0;
  }
  for (int i = 0; i < count; ++i) { // none if it is MPI_UNDEFINED
    const auto which = static_cast<size_t>(concluded[static_cast<size_t>(i)]);
    const MPI_Status& status = statuses[static_cast<size_t>(i)];
    conclude(
        transfers[handles[which]],
        code == MPI_SUCCESS ? MPI_SUCCESS : status.MPI_ERROR,
        status);
  }
  // When it reports an error, Open MPI also frees requests that have failed
  // since, without a word about them.
  for (size_t i = 0; i < requests.size(); ++i) {
    Transfer& transfer = transfers[handles[i]];
    if (requests[i] == MPI_REQUEST_NULL &&
        transfer.request != MPI_REQUEST_NULL) {
      transfer.request = MPI_REQUEST_NULL;
      transfer.state = ZeroMpiState::failed;
    }
  }
}

ZeroMpiState state_of_transfer(int handle, size_t* bytes) {
  const Transfer& transfer = transfer_of(handle);
  *bytes = transfer.bytes;
  return transfer.state;
}

void cancel_transfer(int handle) {
  Transfer& transfer = transfer_of(handle);
  if (transfer.request != MPI_REQUEST_NULL) {
    MPI_Cancel(&transfer.request);
  }
}

void close_transfer(int handle) {
  Transfer& transfer = transfer_of(handle);
  if (transfer.request != MPI_REQUEST_NULL) {
    MPI_Cancel(&transfer.request);
    MPI_Request_free(&transfer.request);
  }
  free_handles.push_back(handle);
}

const char* library() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

const char* error() {
  return message.c_str();
}

} // namespace

extern "C" const ZeroMpiModule* zero_mpi_module() {
  static const ZeroMpiModule module = {
      kZeroMpiModuleVersion,
      library,
      error,
      start,
      stop,
      own_rank,
      num_ranks,
      survives_losses,
      all_gather,
      send_bytes,
      receive_bytes,
      advance_transfers,
      state_of_transfer,
      cancel_transfer,
      close_transfer};
  return &module;
}
