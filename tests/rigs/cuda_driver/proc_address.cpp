// cuGetProcAddress: a name, a version and flags pick one of the exported functions.
#include <cstring>

#include "state.h"

namespace {

struct Entry {
  const char* name;  // without suffix
  void* function;
  int since;        // the CUDA version that brought this form of it
  bool per_thread;  // of the per-thread default stream
};

const Entry kEntries[] = {
#define RIG_ENTRY(name, symbol, since) {#name, reinterpret_cast<void*>(&symbol), since, false},
#define RIG_ENTRY_PER_THREAD(name, symbol, since) {#name, reinterpret_cast<void*>(&symbol), since, true},
#include "exports.def"
#undef RIG_ENTRY
#undef RIG_ENTRY_PER_THREAD
};

// The newest form that the caller's version knows. `too_new`: there are only newer ones.
void* find(const char* name, int version, bool per_thread, bool* too_new) {
  const Entry* best = nullptr;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) != 0 || entry.per_thread != per_thread) continue;
    if (entry.since > version)
      *too_new = true;
    else if (!best || entry.since >= best->since)
      best = &entry;
  }
  return best ? best->function : nullptr;
}

}  // namespace

RIG_API cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult* status) {
  if (!symbol || !out) return CUDA_ERROR_INVALID_VALUE;
  bool too_new = false;
  *out = nullptr;
  // What has no per-thread form has one form for both.
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) *out = find(symbol, version, true, &too_new);
  if (!*out) *out = find(symbol, version, false, &too_new);
  if (status)
    *status = *out      ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_new ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

RIG_API cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, out, version, flags, nullptr);
}

// NVIDIA's own libraries talk to the driver through tables that no header describes: there are none here.
RIG_API cuGetExportTable(const void** table, const CUuuid*) {
  if (table) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
