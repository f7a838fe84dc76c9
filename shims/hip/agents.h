// The machine's agents and the pools of memory that are used of them, asked once for each runtime's life.
#ifndef KERNCAP_HIP_AGENTS_H
#define KERNCAP_HIP_AGENTS_H

#include <string>
#include <vector>

#include "hip/hsa_api.h"

namespace kerncap::hip {

struct Gpu {
  Agent agent{};
  Pool local{};  // its own memory; 0: it has none that can be allocated
  uint64_t memory_bytes = 0;
};

struct Agents {
  std::vector<Gpu> gpus;  // in the runtime's order: the number is the ordinal
  Agent host{};           // the first CPU
  Pool staging{};         // memory of the host that every agent can be let in to
};

// Calls the runtime the first time. Null: it is not there, or could not be asked.
const Agents* agents() noexcept;
// Of a GPU; -1 for any other agent.
int ordinal_of(Agent agent) noexcept;
// Of the GPU that owns a pool; -1: the host's.
int ordinal_of_pool(Pool pool) noexcept;
std::string agent_text(Agent agent, int which);
// "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"; "" if it can't be asked.
std::string isa_name(Agent agent);

void forget_agents() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_AGENTS_H
