// The HSA runtime's functions as they were before this shim, and its way into their tables.
#ifndef KERNCAP_HIP_TABLES_H
#define KERNCAP_HIP_TABLES_H

#include <string>

#include "hip/hsa_api.h"

// rocprofiler-register's, whose place we take. Source: rocprofiler-register.h of ROCm 6.2 to 7.2.
extern "C" __attribute__((visibility("default"))) int rocprofiler_register_library_api_table(
    const char* library, uint32_t (*import)(), uint32_t version, void** tables, uint64_t count, uint64_t* id);

namespace kerncap::hip {

// A function that this runtime lacks stays null.
struct Hsa {
#define KERNCAP_CORE(slot, symbol, result, parameters) result(*symbol) parameters = nullptr;
#define KERNCAP_AMD_EXT(slot_1, slot_2, symbol, result, parameters) result(*symbol) parameters = nullptr;
#include "hip/calls.def"
#include "hip/hooks.def"
#undef KERNCAP_CORE
#undef KERNCAP_AMD_EXT
};

// Null while no runtime has let us in, and after it has shut down.
const Hsa* hsa() noexcept;
using QueueMaker = decltype(Hsa::hsa_queue_create);
// What makes queues by these tables; null if they are unknown.
QueueMaker queue_maker(const ApiTable* tables) noexcept;
// What a wrapper passes its call on to, whoever still calls it.
const Hsa& real() noexcept;

enum class Adoption { adopted, already, refused };

// Keeps what the tables hold and puts our wrappers there. `already`: they are in these tables. `refused`:
// nothing was touched, and `why` says what these tables are.
Adoption adopt(ApiTable* tables, std::string* why);
// The runtime shuts down: nothing of it may be called.
void let_go() noexcept;

// What takes the place of a function of hooks.def.
namespace wrap {
#define KERNCAP_CORE(slot, symbol, result, parameters) result symbol parameters noexcept;
#define KERNCAP_AMD_EXT(slot_1, slot_2, symbol, result, parameters) result symbol parameters noexcept;
#include "hip/hooks.def"
#undef KERNCAP_CORE
#undef KERNCAP_AMD_EXT
}  // namespace wrap

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_TABLES_H
