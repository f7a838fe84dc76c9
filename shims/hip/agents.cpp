#include "hip/agents.h"

#include <atomic>
#include <mutex>
#include <new>

#include "common/gate.h"
#include "common/glibc_floor.h"
#include "hip/tables.h"

namespace kerncap::hip {
namespace {

struct Known {
  Agents agents;
  std::vector<std::pair<uint64_t, int>> pools;  // every pool of memory, with its owner's ordinal
};

// What was asked in an earlier life of the runtime stays allocated: somebody may still look at it.
std::atomic<const Known*> published{nullptr};
std::mutex asking;

struct PoolFacts {
  bool usable = false;
  uint32_t flags = 0;
  size_t size = 0;
};

PoolFacts facts_of(const Hsa& real, Pool pool) {
  PoolFacts facts;
  int segment = -1;
  bool allowed = false;
  real.hsa_amd_memory_pool_get_info(pool, constant::pool_segment, &segment);
  if (segment != constant::segment_global) return facts;
  real.hsa_amd_memory_pool_get_info(pool, constant::pool_global_flags, &facts.flags);
  real.hsa_amd_memory_pool_get_info(pool, constant::pool_alloc_allowed, &allowed);
  real.hsa_amd_memory_pool_get_info(pool, constant::pool_size, &facts.size);
  facts.usable = allowed;
  return facts;
}

struct Collector {
  const Hsa& real;
  Known& known;
  int ordinal = -1;  // of the agent whose pools are looked at
};

Status add_pool(Pool pool, void* data) {
  auto& into = *static_cast<Collector*>(data);
  PoolFacts facts = facts_of(into.real, pool);
  into.known.pools.emplace_back(pool.handle, into.ordinal);
  Agents& agents = into.known.agents;
  if (into.ordinal < 0) {
    // Plain host memory: what kernel arguments are put in may be small.
    bool better = agents.staging.handle == 0 && (facts.flags & constant::pool_flag_kernarg) == 0;
    if (facts.usable && better) agents.staging = pool;
    return constant::success;
  }
  Gpu& gpu = agents.gpus.back();
  bool coarse = (facts.flags & constant::pool_flag_coarse_grained) != 0;
  if (facts.usable && coarse && gpu.local.handle == 0) {
    gpu.local = pool;
    gpu.memory_bytes = facts.size;
  }
  return constant::success;
}

Status add_agent(Agent agent, void* data) {
  auto& into = *static_cast<Collector*>(data);
  int type = -1;
  into.real.hsa_agent_get_info(agent, constant::agent_device, &type);
  Agents& agents = into.known.agents;
  if (type == constant::device_type_gpu) {
    Gpu gpu;
    gpu.agent = agent;
    into.ordinal = static_cast<int>(agents.gpus.size());
    agents.gpus.push_back(gpu);
  } else if (type == constant::device_type_cpu && agents.host.handle == 0) {
    agents.host = agent;
    into.ordinal = -1;
  } else {
    return constant::success;
  }
  into.real.hsa_amd_agent_iterate_memory_pools(agent, add_pool, &into);
  return constant::success;
}

const Known* ask() {
  const Hsa* real = hsa();
  if (real == nullptr) return nullptr;
  gate::Own own;
  auto* known = new Known;
  Collector collector{*real, *known};
  // A callback of the runtime's must not throw.
  struct Guard {
    static Status each(Agent agent, void* data) {
      try {
        return add_agent(agent, data);
      } catch (const std::bad_alloc&) {
        return constant::error;
      }
    }
  };
  if (real->hsa_iterate_agents(Guard::each, &collector) == constant::success) return known;
  delete known;
  return nullptr;
}

const Known* known_agents() noexcept try {
  const Known* found = published.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  std::lock_guard<std::mutex> lock(asking);
  found = published.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = ask();
    published.store(found, std::memory_order_release);
  }
  return found;
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

const Agents* agents() noexcept {
  const Known* known = known_agents();
  return known == nullptr ? nullptr : &known->agents;
}

int ordinal_of(Agent agent) noexcept {
  const Agents* all = agents();
  for (size_t i = 0; all != nullptr && i < all->gpus.size(); ++i)
    if (all->gpus[i].agent.handle == agent.handle) return static_cast<int>(i);
  return -1;
}

int ordinal_of_pool(Pool pool) noexcept {
  const Known* known = known_agents();
  if (known == nullptr) return -1;
  for (const auto& entry : known->pools)
    if (entry.first == pool.handle) return entry.second;
  return -1;
}

std::string agent_text(Agent agent, int which) {
  char text[65] = "";
  if (const Hsa* real = hsa()) real->hsa_agent_get_info(agent, which, text);
  text[64] = '\0';
  return text;
}

std::string isa_name(Agent agent) {
  const Hsa* real = hsa();
  std::string name;
  if (real == nullptr || real->hsa_agent_iterate_isas == nullptr) return name;
  struct Reply {
    const Hsa& real;
    std::string& name;
  } reply{*real, name};
  real->hsa_agent_iterate_isas(
      agent,
      [](uint64_t isa, void* data) -> Status {
        auto& into = *static_cast<Reply*>(data);
        uint32_t length = 0;
        char text[256] = "";
        into.real.hsa_isa_get_info_alt(isa, constant::isa_name_length, &length);
        if (length < sizeof text) into.real.hsa_isa_get_info_alt(isa, constant::isa_name, text);
        into.name = text;  // the short string of a target fits
        return constant::info_break;
      },
      &reply);
  return name;
}

void forget_agents() noexcept {
  published.store(nullptr, std::memory_order_release);
}

}  // namespace kerncap::hip
