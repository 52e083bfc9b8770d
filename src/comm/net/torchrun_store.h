// Defines how ranks that torchrun has started on several machines tell each
// other how to reach them, before they can talk over MPI: by the store that its
// agent keeps at MASTER_ADDR:MASTER_PORT. libzero opens no port for it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "comm/environment.h"
#include "comm/net/pmi_server.h"

namespace c10d {
class Store;
}

namespace zero::comm {

// Connects to the store that the environment names.
// Throws: CommError if nobody answers there. The call that it returns throws
// CommTimeout naming ranks that do not come in time, or CommError if the store
// is gone.
GatherBytes gather_at_torchrun(
    const Environment& environment,
    double limit_seconds);

// The same at any store. `meeting` is a name that only the ranks of one run
// share. Ranks that come with it once more, after all of them have ended, meet
// among themselves.
GatherBytes gather_at(
    c10::intrusive_ptr<c10d::Store> store,
    const std::string& meeting,
    int rank,
    int size,
    double limit_seconds);

} // namespace zero::comm
