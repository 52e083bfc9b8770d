// Defines run_threads(): a world whose ranks are threads of this process. They
// talk through the same code as processes do; for tests, for debuggers, and for
// sanitizers, which see all ranks at once.
//
//   zero::run_threads(4, [](zero::World world) {
//     auto t = at::full({3}, world.rank());
//     world.communicator().all_reduce(t).wait();
//   });
#pragma once

#include <zero/world.h>

#include <functional>

namespace zero {

// Blocks until every rank has returned. A rank that throws leaves the world:
// the others get PeerLost where they wait for it.
// Throws: what the first rank threw that did not fail because of another one.
void run_threads(
    int num_ranks,
    const std::function<void(World)>& body,
    const InitOptions& options = {});

} // namespace zero
