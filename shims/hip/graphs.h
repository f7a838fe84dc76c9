// Launches of HIP graphs. HIP sends a graph's kernels to its queues as it does others, on the thread that
// launches the graph, before that returns.
#ifndef KERNCAP_HIP_GRAPHS_H
#define KERNCAP_HIP_GRAPHS_H

#include "common/launch.h"

namespace kerncap::hip {

using LaunchGraph = int (*)(void* graph, void* stream);

// Launches it by HIP's own function.
int launch_graph(LaunchGraph real, void* graph, void* stream) noexcept;
// Its handle may be another graph's from now on.
void forget_graph(const void* graph) noexcept;

// The graph's launch that this thread is in.
const GraphTurn& graph_here() noexcept;

// Around a fork.
void lock_graphs() noexcept;
void unlock_graphs() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_GRAPHS_H
