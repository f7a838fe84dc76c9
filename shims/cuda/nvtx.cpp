// NVTX: this library is what NVTX_INJECTION64_PATH names, so each copy of NVTX in the process hands its table
// of callbacks to InitializeInjectionNvtx2 at its first use; pushes, pops, starts and ends are put into it.
//
// Source: nvtx3/nvToolsExt.h and nvtxDetail/nvtxTypes.h of CUDA 12 and 13. Callbacks that are not set stay
// without effect.
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>

#include "common/capture.h"
#include "common/clock.h"
#include "common/glibc_floor.h"
#include "common/nvtx_ranges.h"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace kerncap::cuda {
namespace {

constexpr uint32_t export_callbacks = 1;  // NVTX_ETID_CALLBACKS
constexpr int module_core = 1, module_core2 = 5;
namespace core {
constexpr unsigned start_ex = 4, start_a = 5, start_w = 6, end = 7, push_ex = 8, push_a = 9, push_w = 10,
                   pop = 11;
}
namespace core2 {
constexpr unsigned start_ex = 2, end = 3, push_ex = 4, pop = 5, register_a = 10, register_w = 11,
                   create_a = 12, create_w = 13;
}

using Function = void (*)();

struct Callbacks {
  size_t struct_size;
  int (*get_module_table)(int module, Function*** table, unsigned* size);
};

// nvtxEventAttributes_t, version 1 to 3.
struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(offsetof(Attributes, message) == 40, "as nvToolsExt.h has it");
enum MessageType : int32_t { message_ascii = 1, message_unicode = 2, message_registered = 3 };

constexpr size_t most_registered = 65536;

// Registered texts, and domains by their names: handles are these strings' addresses, for good.
struct Registered {
  std::mutex mutex;
  std::set<std::string> texts, domains;
};
Registered& registered() {
  static auto* instance = new Registered;
  return *instance;
}

const void* keep(std::set<std::string>& set, std::string text) {
  std::lock_guard<std::mutex> lock(registered().mutex);
  if (set.size() >= most_registered) text = "(more names)";
  return &*set.insert(std::move(text)).first;
}

void append_utf8(std::string* out, uint32_t c) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | (c >> 18 & 7)));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

std::string_view text_of(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text, ::strnlen(text, 256));
}

std::string text_of(const wchar_t* text) {
  std::string out;
  for (size_t i = 0; text != nullptr && text[i] != 0 && i < 256; ++i)
    append_utf8(&out, static_cast<uint32_t>(text[i]));
  return out;
}

// Whatever goes wrong in a name is the name's loss: the range counts.
template <typename Text, typename Use>
auto with_text(Text text, Use&& use) noexcept {
  try {
    return use(text_of(text));
  } catch (const std::bad_alloc&) {
    return use("");
  }
}

template <typename Use>
auto with_text(const Attributes* attributes, Use&& use) noexcept {
  if (attributes == nullptr || attributes->message == nullptr || attributes->size < sizeof(Attributes))
    return use("");
  switch (attributes->message_type) {
    case message_ascii:
      return with_text(static_cast<const char*>(attributes->message), use);
    case message_unicode:
      return with_text(static_cast<const wchar_t*>(attributes->message), use);
    case message_registered:
      return use(*static_cast<const std::string*>(attributes->message));
    default:
      return use("");
  }
}

template <typename Text>
int push(const void* domain, Text text) noexcept {
  KeepErrno keep_errno;
  return with_text(text, [=](std::string_view name) noexcept { return ranges::push(domain, name); });
}

template <typename Text>
uint64_t start(Text text) noexcept {
  KeepErrno keep_errno;
  return with_text(text, [](std::string_view name) noexcept { return ranges::start(name); });
}

template <typename Text>
const void* register_text(std::set<std::string>& set, Text text) noexcept {
  try {
    return keep(set, std::string(text_of(text)));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// --- the callbacks ---------------------------------------------------------------------------------

uint64_t range_start_ex(const Attributes* attributes) {
  return start(attributes);
}
uint64_t range_start_a(const char* text) {
  return start(text);
}
uint64_t range_start_w(const wchar_t* text) {
  return start(text);
}
void range_end(uint64_t range) {
  ranges::end(range);
}
int range_push_ex(const Attributes* attributes) {
  return push(nullptr, attributes);
}
int range_push_a(const char* text) {
  return push(nullptr, text);
}
int range_push_w(const wchar_t* text) {
  return push(nullptr, text);
}
int range_pop() {
  return ranges::pop(nullptr);
}
uint64_t domain_range_start_ex(const void*, const Attributes* attributes) {
  return start(attributes);
}
void domain_range_end(const void*, uint64_t range) {
  ranges::end(range);
}
int domain_range_push_ex(const void* domain, const Attributes* attributes) {
  return push(domain, attributes);
}
int domain_range_pop(const void* domain) {
  return ranges::pop(domain);
}
const void* domain_register_a(const void*, const char* text) {
  return register_text(registered().texts, text);
}
const void* domain_register_w(const void*, const wchar_t* text) {
  return register_text(registered().texts, text);
}
const void* domain_create_a(const char* name) {
  return register_text(registered().domains, name);
}
const void* domain_create_w(const wchar_t* name) {
  return register_text(registered().domains, name);
}

struct Slot {
  int module;
  unsigned id;
  Function function;
};

template <typename T>
Slot slot(int module, unsigned id, T* function) {
  return {module, id, reinterpret_cast<Function>(function)};
}

bool fill(const Callbacks& callbacks) {
  const Slot slots[] = {
      slot(module_core, core::start_ex, range_start_ex),
      slot(module_core, core::start_a, range_start_a),
      slot(module_core, core::start_w, range_start_w),
      slot(module_core, core::end, range_end),
      slot(module_core, core::push_ex, range_push_ex),
      slot(module_core, core::push_a, range_push_a),
      slot(module_core, core::push_w, range_push_w),
      slot(module_core, core::pop, range_pop),
      slot(module_core2, core2::start_ex, domain_range_start_ex),
      slot(module_core2, core2::end, domain_range_end),
      slot(module_core2, core2::push_ex, domain_range_push_ex),
      slot(module_core2, core2::pop, domain_range_pop),
      slot(module_core2, core2::register_a, domain_register_a),
      slot(module_core2, core2::register_w, domain_register_w),
      slot(module_core2, core2::create_a, domain_create_a),
      slot(module_core2, core2::create_w, domain_create_w),
  };
  bool any = false;
  for (const Slot& one : slots) {
    Function** table = nullptr;
    unsigned size = 0;
    if (callbacks.get_module_table(one.module, &table, &size) == 0 || table == nullptr) continue;
    if (one.id >= size || table[one.id] == nullptr) continue;
    *table[one.id] = one.function;
    any = true;
  }
  return any;
}

}  // namespace
}  // namespace kerncap::cuda

// 0: NVTX goes on as if no tool were there, and costs nothing.
KERNCAP_EXPORT int InitializeInjectionNvtx2(const void* (*get_export_table)(uint32_t)) {
  using namespace kerncap;
  if (get_export_table == nullptr || !capture::armed()) return 0;
  const auto* callbacks = static_cast<const cuda::Callbacks*>(get_export_table(cuda::export_callbacks));
  bool is_whole = callbacks != nullptr && callbacks->struct_size >= sizeof(cuda::Callbacks) &&
                  callbacks->get_module_table != nullptr;
  if (!is_whole || !cuda::fill(*callbacks)) return 0;
  ranges::are_told();
  return 1;
}
