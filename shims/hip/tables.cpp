#include "hip/tables.h"

#include <atomic>
#include <cstring>

namespace kerncap::hip {
namespace {

// Versions whose slots are known: within one, tables only grow at their end, and `minor` says how far.
constexpr uint32_t known_root = 3, known_core = 2, known_amd_ext = 2;

struct Slot {
  bool is_core;
  int in_1, in_2;  // by the table's major version
  size_t member;   // its offset in Hsa
  Function wrapper;
};

template <typename T>
Function erase(T* function) {
  return reinterpret_cast<Function>(function);
}

const Slot called[] = {
#define KERNCAP_CORE(slot, symbol, result, parameters) {true, slot, slot, offsetof(Hsa, symbol), nullptr},
#define KERNCAP_AMD_EXT(slot_1, slot_2, symbol, result, parameters) \
  {false, slot_1, slot_2, offsetof(Hsa, symbol), nullptr},
#include "hip/calls.def"
#undef KERNCAP_CORE
#undef KERNCAP_AMD_EXT
};

const Slot hooked[] = {
#define KERNCAP_CORE(slot, symbol, result, parameters) \
  {true, slot, slot, offsetof(Hsa, symbol), erase(wrap::symbol)},
#define KERNCAP_AMD_EXT(slot_1, slot_2, symbol, result, parameters) \
  {false, slot_1, slot_2, offsetof(Hsa, symbol), erase(wrap::symbol)},
#include "hip/hooks.def"
#undef KERNCAP_CORE
#undef KERNCAP_AMD_EXT
};

// Written while the runtime loads its tools, before anything else can call it.
Hsa kept;
std::atomic<const Hsa*> published{nullptr};

// Where a function lies in these tables; null if they end before it.
Function* place(const ApiTable& tables, const Slot& slot) {
  Table* table = slot.is_core ? tables.core : tables.amd_ext;
  int number = table->version.major == 1 ? slot.in_1 : slot.in_2;
  if (number < 0 || slot_offset(number) + sizeof(Function) > table->version.minor) return nullptr;
  return &table->functions[number];
}

bool is_known(const TableVersion& version, uint32_t newest) {
  return version.major >= 1 && version.major <= newest;
}

std::string version_text(const TableVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

bool can_adopt(const ApiTable& tables, std::string* why) {
  if (!is_known(tables.version, known_root) || tables.core == nullptr || tables.amd_ext == nullptr) {
    *why = "root table " + version_text(tables.version);
    return false;
  }
  if (is_known(tables.core->version, known_core) && is_known(tables.amd_ext->version, known_amd_ext))
    return true;
  *why = "core table " + version_text(tables.core->version) + ", amd_ext table " +
         version_text(tables.amd_ext->version);
  return false;
}

bool has_ours(const ApiTable& tables) {
  for (const Slot& slot : hooked) {
    Function* at = place(tables, slot);
    if (at != nullptr && *at == slot.wrapper) return true;
  }
  return false;
}

void keep(const ApiTable& tables, const Slot& slot) {
  const Function* at = place(tables, slot);
  Function function = at != nullptr ? *at : nullptr;
  std::memcpy(reinterpret_cast<char*>(&kept) + slot.member, &function, sizeof function);
}

}  // namespace

const Hsa* hsa() noexcept {
  return published.load(std::memory_order_acquire);
}

const Hsa& real() noexcept {
  return kept;
}

QueueMaker queue_maker(const ApiTable* tables) noexcept {
  constexpr int slot = 7;  // hooks.def
  return tables != nullptr && tables->core != nullptr
             ? reinterpret_cast<QueueMaker>(tables->core->functions[slot])
             : nullptr;
}

Adoption adopt(ApiTable* tables, std::string* why) {
  if (!can_adopt(*tables, why)) return Adoption::refused;
  if (has_ours(*tables)) return Adoption::already;
  for (const Slot& slot : called) keep(*tables, slot);
  for (const Slot& slot : hooked) keep(*tables, slot);
  published.store(&kept, std::memory_order_release);
  for (const Slot& slot : hooked) {
    Function* at = place(*tables, slot);
    if (at != nullptr && *at != nullptr) *at = slot.wrapper;
  }
  return Adoption::adopted;
}

void let_go() noexcept {
  published.store(nullptr, std::memory_order_release);
}

}  // namespace kerncap::hip
