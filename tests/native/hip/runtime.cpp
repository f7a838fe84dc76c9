#include "runtime.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace runtime {

bool whole_batches = true, refuses_intercept = false;
std::atomic<bool> copies_stand_still{false};

namespace {

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "the runtime was used wrongly: %s\n", what);
  std::abort();
}

struct SignalObject {
  std::atomic<SignalValue> value{0};
  std::function<void()> rung;  // of a doorbell
};
SignalObject& object(Signal signal) {
  return *reinterpret_cast<SignalObject*>(signal.handle);
}

thread_local struct Queue_* cursor = nullptr;

// The hardware's ring, and the one in front of it.
struct Queue_ {
  HsaQueue handle{};
  std::vector<Packet> ring;
  std::atomic<uint64_t> write_index{0}, read_index{0};
  uint64_t next_packet = 0;
  std::mutex lock;  // held during callbacks
  std::vector<Packet> overflow;
  PacketHandler handler = nullptr;
  void* data = nullptr;
  SignalObject doorbell;

  std::mutex hardware;
  std::condition_variable changed;
  std::deque<Packet> given;
  std::vector<Packet> all;
  bool retry = false, busy = false, quit = false;
  std::thread processor, retrier;
};

std::mutex registry;
std::map<const HsaQueue*, Queue_*> queues;
std::map<uint64_t, size_t> memory;
std::vector<KernelCode*> symbols;

Queue_& queue_of(const HsaQueue* handle) {
  std::lock_guard<std::mutex> guard(registry);
  return *queues.at(handle);
}

void run_packet(const Packet& packet) {
  unsigned type = packet.header & 0xffU;
  if (type == constant::packet_dispatch)
    reinterpret_cast<KernelCode*>(packet.dispatch.kernel_object)->body(packet.dispatch);
  if (type == constant::packet_dispatch || type == constant::packet_barrier_and)
    if (packet.dispatch.completion_signal.handle != 0)
      object(packet.dispatch.completion_signal).value.fetch_sub(1);
}

void process(Queue_& queue) {
  std::unique_lock<std::mutex> guard(queue.hardware);
  for (;;) {
    queue.changed.wait(guard, [&] { return queue.quit || !queue.given.empty(); });
    if (queue.quit) return;
    Packet packet = queue.given.front();
    queue.busy = true;
    guard.unlock();
    run_packet(packet);
    guard.lock();
    queue.given.pop_front();
    queue.all.push_back(packet);
    queue.busy = false;
    queue.changed.notify_all();
  }
}

// All of them, or none where there is no room.
bool submit_to_hardware(Queue_& queue, const Packet* packets, uint64_t count) {
  std::lock_guard<std::mutex> guard(queue.hardware);
  if (queue.given.size() + count + 1 > queue.handle.size) {
    queue.retry = true;
    return false;
  }
  queue.given.insert(queue.given.end(), packets, packets + count);
  queue.changed.notify_all();
  return true;
}

void write_packets(const void* packets, uint64_t count) {
  if (cursor == nullptr) broken("a writer was called outside of its callback");
  const auto* all = static_cast<const Packet*>(packets);
  if (submit_to_hardware(*cursor, all, count)) {
    if (!cursor->overflow.empty()) broken("packets overtook others that had no room");
    return;
  }
  if (!cursor->overflow.empty()) broken("a second batch had no room");
  cursor->overflow.assign(all, all + count);
}

void ring(Queue_& queue) {
  if (cursor != nullptr) broken("a doorbell was rung inside a callback");
  std::lock_guard<std::mutex> guard(queue.lock);
  if (!queue.overflow.empty()) {
    if (!submit_to_hardware(queue, queue.overflow.data(), queue.overflow.size())) return;
    queue.overflow.clear();
  }
  cursor = &queue;
  auto is_there = [&](uint64_t at) {
    return at < queue.write_index.load() &&
           __atomic_load_n(&queue.ring[at % queue.handle.size].header, __ATOMIC_ACQUIRE) % 256 !=
               constant::packet_invalid;
  };
  while (queue.overflow.empty() && is_there(queue.next_packet)) {
    std::vector<Packet> batch;
    for (uint64_t at = queue.next_packet; is_there(at) && (batch.empty() || whole_batches); ++at)
      batch.push_back(queue.ring[at % queue.handle.size]);
    queue.handler(batch.data(), batch.size(), queue.next_packet, queue.data, write_packets);
    for (size_t i = 0; i < batch.size(); ++i)
      __atomic_store_n(&queue.ring[queue.next_packet++ % queue.handle.size].header,
                       static_cast<uint16_t>(constant::packet_invalid), __ATOMIC_RELEASE);
  }
  cursor = nullptr;
  queue.read_index.store(queue.next_packet);
}

// What had no room is written when there is some again.
void retry(Queue_& queue) {
  for (;;) {
    {
      std::unique_lock<std::mutex> guard(queue.hardware);
      queue.changed.wait(
          guard, [&] { return queue.quit || (queue.retry && queue.given.size() < queue.handle.size / 2); });
      if (queue.quit) return;
      queue.retry = false;
    }
    ring(queue);
  }
}

// --- the functions ------------------------------------------------------------------------------------

constexpr Agent cpu{1}, gpu{2};
constexpr Pool host_pool{11}, device_pool{12};

Status hsa_iterate_agents(Status (*each)(Agent, void*), void* data) {
  each(cpu, data);
  return each(gpu, data);
}
Status hsa_agent_get_info(Agent agent, int which, void* value) {
  if (which == constant::agent_device) *static_cast<int*>(value) = agent.handle == gpu.handle ? 1 : 0;
  if (which == constant::agent_name) std::strcpy(static_cast<char*>(value), "gfx90a");
  if (which == constant::agent_product_name) std::strcpy(static_cast<char*>(value), "Stand-in");
  return constant::success;
}
Status hsa_system_get_info(int which, void* value) {
  if (which > constant::system_version_minor) return constant::error;
  *static_cast<uint16_t*>(value) = 1;
  return constant::success;
}
Status hsa_amd_agent_iterate_memory_pools(Agent agent, Status (*each)(Pool, void*), void* data) {
  return each(agent.handle == gpu.handle ? device_pool : host_pool, data);
}
Status hsa_amd_memory_pool_get_info(Pool, int which, void* value) {
  if (which == constant::pool_segment) *static_cast<int*>(value) = constant::segment_global;
  if (which == constant::pool_global_flags)
    *static_cast<uint32_t*>(value) = constant::pool_flag_coarse_grained;
  if (which == constant::pool_alloc_allowed) *static_cast<bool*>(value) = true;
  if (which == constant::pool_size) *static_cast<size_t*>(value) = 1U << 30;
  return constant::success;
}
Status hsa_amd_memory_pool_allocate(Pool, size_t size, uint32_t, void** out) {
  *out = std::calloc(1, size);
  std::lock_guard<std::mutex> guard(registry);
  memory[reinterpret_cast<uint64_t>(*out)] = size;
  return constant::success;
}
Status hsa_amd_memory_pool_free(void* pointer) {
  {
    std::lock_guard<std::mutex> guard(registry);
    if (memory.erase(reinterpret_cast<uint64_t>(pointer)) == 0) return constant::error;
  }
  std::free(pointer);
  return constant::success;
}
Status hsa_amd_agents_allow_access(uint32_t, const Agent*, const uint32_t*, const void*) {
  return constant::success;
}
Status hsa_amd_pointer_info(const void* address, PointerInfo* info, void* (*)(size_t), uint32_t*, Agent**) {
  std::lock_guard<std::mutex> guard(registry);
  auto found = memory.find(reinterpret_cast<uint64_t>(address));
  info->type = found == memory.end() ? constant::pointer_unknown : constant::pointer_hsa;
  if (found == memory.end()) return constant::success;
  info->agentBaseAddress = const_cast<void*>(address);
  info->sizeInBytes = found->second;
  info->agentOwner = gpu;
  return constant::success;
}
Status hsa_amd_memory_async_copy(void* to, Agent, const void* from, Agent, size_t size, uint32_t,
                                 const Signal*, Signal done) {
  std::thread([=] {
    // Copies of the tool's own go into memory of the host's.
    while (copies_stand_still.load() && size == 4) std::this_thread::yield();
    std::memcpy(to, from, size);
    object(done).value.fetch_sub(1);
  }).detach();
  return constant::success;
}
Status hsa_signal_create(SignalValue value, uint32_t, const Agent*, Signal* out) {
  auto* made = new SignalObject;
  made->value.store(value);
  out->handle = reinterpret_cast<uint64_t>(made);
  return constant::success;
}
Status hsa_signal_destroy(Signal) {
  return constant::success;  // kept: a test looks at them until its end
}
SignalValue hsa_signal_load_scacquire(Signal signal) {
  return object(signal).value.load();
}
void hsa_signal_store_screlease(Signal signal, SignalValue value) {
  if (object(signal).rung)
    object(signal).rung();
  else
    object(signal).value.store(value);
}
Status hsa_status_string(Status, const char** text) {
  *text = "an error";
  return constant::success;
}

uint64_t hsa_queue_load_read_index_scacquire(const HsaQueue* queue) {
  return queue_of(queue).read_index.load();
}
uint64_t hsa_queue_load_write_index_scacquire(const HsaQueue* queue) {
  return queue_of(queue).write_index.load();
}
uint64_t hsa_queue_cas_write_index_scacq_screl(const HsaQueue* queue, uint64_t expected, uint64_t value) {
  queue_of(queue).write_index.compare_exchange_strong(expected, value);
  return expected;
}
void pass_on(const void* packets, uint64_t count, uint64_t, void*, PacketWriter writer) {
  writer(packets, count);
}
Status hsa_queue_create(Agent, uint32_t size, uint32_t type, QueueError, void*, uint32_t, uint32_t,
                        HsaQueue** out) {
  auto* made = new Queue_;
  made->ring.resize(size);
  for (Packet& packet : made->ring) packet.header = constant::packet_invalid;
  made->handle.size = size;
  made->handle.type = type;
  made->handle.base_address = made->ring.data();
  made->handle.doorbell_signal.handle = reinterpret_cast<uint64_t>(&made->doorbell);
  made->doorbell.rung = [made] { ring(*made); };
  made->handler = pass_on;
  made->processor = std::thread(process, std::ref(*made));
  made->retrier = std::thread(retry, std::ref(*made));
  std::lock_guard<std::mutex> guard(registry);
  queues[&made->handle] = made;
  *out = &made->handle;
  return constant::success;
}
Status hsa_amd_queue_intercept_create(Agent agent, uint32_t size, uint32_t type, QueueError on_error,
                                      void* data, uint32_t a, uint32_t b, HsaQueue** out) {
  if (refuses_intercept) return constant::error;
  return hsa_queue_create(agent, size, type, on_error, data, a, b, out);
}
Status hsa_amd_queue_intercept_register(HsaQueue* queue, PacketHandler handler, void* data) {
  queue_of(queue).handler = handler;
  queue_of(queue).data = data;
  return constant::success;
}
Status hsa_queue_destroy(HsaQueue* handle) {
  Queue_& queue = queue_of(handle);
  if (handle->type == constant::queue_type_cooperative && queue.handler != pass_on)
    broken("the agent's queue for cooperative launches was destroyed with what intercepts it");
  {
    std::lock_guard<std::mutex> guard(queue.hardware);
    queue.quit = true;
    queue.changed.notify_all();
  }
  queue.processor.join();
  queue.retrier.join();
  std::lock_guard<std::mutex> guard(registry);
  queues.erase(handle);
  return constant::success;
}

Status hsa_code_object_reader_create_from_memory(const void*, size_t, Reader* reader) {
  reader->handle = 7;
  return constant::success;
}
Status hsa_executable_load_agent_code_object(Executable, Agent, Reader, const char*, LoadedObject*) {
  return constant::success;
}
Status hsa_executable_freeze(Executable, const char*) {
  return constant::success;
}
Status hsa_executable_iterate_agent_symbols(Executable executable, Agent agent,
                                            Status (*each)(Executable, Agent, Symbol, void*), void* data) {
  for (KernelCode* kernel : symbols)
    each(executable, agent, Symbol{reinterpret_cast<uint64_t>(kernel)}, data);
  return constant::success;
}
Status hsa_executable_symbol_get_info(Symbol symbol, int which, void* value) {
  const auto& kernel = *reinterpret_cast<KernelCode*>(symbol.handle);
  auto set = [&](auto what) { std::memcpy(value, &what, sizeof what); };
  if (which == constant::symbol_name_length) set(static_cast<uint32_t>(kernel.name.size()));
  if (which == constant::symbol_name) std::memcpy(value, kernel.name.data(), kernel.name.size());
  if (which == constant::symbol_type) set(int{constant::symbol_is_kernel});
  if (which == constant::symbol_kernel_object) set(symbol.handle);
  if (which == constant::symbol_kernarg_size) set(kernel.parameter_bytes);
  if (which == constant::symbol_group_size) set(uint32_t{128});
  return constant::success;
}

// --- the tables -----------------------------------------------------------------------------------------

struct Place {
  bool is_core;
  int in_1, in_2;
};
const std::map<std::string, Place>& places() {
  static const std::map<std::string, Place> all = {
#define KERNCAP_CORE(slot, symbol, result, parameters) {#symbol, {true, slot, slot}},
#define KERNCAP_AMD_EXT(slot_1, slot_2, symbol, result, parameters) {#symbol, {false, slot_1, slot_2}},
#include "hip/calls.def"
#include "hip/hooks.def"
  };
  return all;
}

struct Tables {
  ApiTable root;
  alignas(8) unsigned char core[sizeof(TableVersion) + 125 * sizeof(Function)];
  alignas(8) unsigned char amd_ext[sizeof(TableVersion) + 80 * sizeof(Function)];
};
Tables made;

Function* slot(const std::string& name) {
  const Place& place = places().at(name);
  Table* table = place.is_core ? made.root.core : made.root.amd_ext;
  int number = table->version.major == 1 ? place.in_1 : place.in_2;
  return number < 0 ? nullptr : &table->functions[number];
}

template <typename F>
void put(const char* name, F* function) {
  if (Function* at = slot(name)) *at = reinterpret_cast<Function>(function);
}

}  // namespace

ApiTable* tables(uint32_t amd_major, int functions) {
  made = Tables();
  made.root.core = reinterpret_cast<Table*>(made.core);
  made.root.amd_ext = reinterpret_cast<Table*>(made.amd_ext);
  made.root.version = {3, sizeof(ApiTable), 0, 0};
  made.root.core->version = {2, sizeof made.core, 0, 0};
  made.root.amd_ext->version = {amd_major, static_cast<uint32_t>(slot_offset(functions)), 0, 0};
#define PUT(name) put(#name, name)
  PUT(hsa_iterate_agents), PUT(hsa_agent_get_info), PUT(hsa_system_get_info);
  PUT(hsa_amd_agent_iterate_memory_pools), PUT(hsa_amd_memory_pool_get_info);
  PUT(hsa_amd_memory_pool_allocate), PUT(hsa_amd_memory_pool_free), PUT(hsa_amd_agents_allow_access);
  PUT(hsa_amd_pointer_info), PUT(hsa_amd_memory_async_copy), PUT(hsa_signal_create), PUT(hsa_signal_destroy);
  PUT(hsa_signal_load_scacquire), PUT(hsa_signal_store_screlease), PUT(hsa_status_string);
  put("hsa_signal_store_relaxed", hsa_signal_store_screlease);
  PUT(hsa_queue_load_read_index_scacquire), PUT(hsa_queue_load_write_index_scacquire);
  PUT(hsa_queue_cas_write_index_scacq_screl), PUT(hsa_queue_create), PUT(hsa_queue_destroy);
  PUT(hsa_amd_queue_intercept_create), PUT(hsa_amd_queue_intercept_register);
  PUT(hsa_code_object_reader_create_from_memory), PUT(hsa_executable_load_agent_code_object);
  PUT(hsa_executable_freeze), PUT(hsa_executable_iterate_agent_symbols), PUT(hsa_executable_symbol_get_info);
#undef PUT
  return &made.root;
}

Function function(const std::string& name) {
  return *slot(name);
}

void load(const std::vector<KernelCode*>& kernels) {
  static const unsigned char code[] = "\177ELF, no more than its first bytes";
  symbols = kernels;
  Reader reader{};
  call<Status (*)(const void*, size_t, Reader*)>("hsa_code_object_reader_create_from_memory")(
      code, sizeof code, &reader);
  call<Status (*)(Executable, Agent, Reader, const char*, LoadedObject*)>(
      "hsa_executable_load_agent_code_object")({5}, gpu, reader, nullptr, nullptr);
  call<Status (*)(Executable, const char*)>("hsa_executable_freeze")({5}, nullptr);
}

HsaQueue* make_queue(uint32_t size, uint32_t type) {
  HsaQueue* queue = nullptr;
  call<decltype(&hsa_queue_create)>("hsa_queue_create")(gpu, size, type, nullptr, nullptr, 0, 0, &queue);
  return queue;
}

void destroy_queue(HsaQueue* queue) {
  call<Status (*)(HsaQueue*)>("hsa_queue_destroy")(queue);
}

float* allocate(size_t count) {
  void* pointer = nullptr;
  call<decltype(&hsa_amd_memory_pool_allocate)>("hsa_amd_memory_pool_allocate")(device_pool, count * 4, 0,
                                                                                &pointer);
  return static_cast<float*>(pointer);
}

Signal make_signal(SignalValue value) {
  Signal signal{};
  hsa_signal_create(value, 0, nullptr, &signal);
  return signal;
}

SignalValue value_of(Signal signal) {
  return object(signal).value.load();
}

Packet dispatch(const KernelCode& kernel, void* parameters, Signal done) {
  Packet packet{};
  packet.dispatch.header = constant::packet_dispatch | 1U << constant::header_barrier;
  packet.dispatch.setup = 1;
  packet.dispatch.workgroup_size_x = 64;
  packet.dispatch.workgroup_size_y = packet.dispatch.workgroup_size_z = 1;
  packet.dispatch.grid_size_x = 100;
  packet.dispatch.grid_size_y = packet.dispatch.grid_size_z = 1;
  packet.dispatch.group_segment_size = 192;
  packet.dispatch.kernel_object = reinterpret_cast<uint64_t>(&kernel);
  packet.dispatch.kernarg_address = parameters;
  packet.dispatch.completion_signal = done;
  return packet;
}

Packet vendor_packet(uint64_t tag) {
  Packet packet{};
  packet.dispatch.header = 0;  // vendor specific
  packet.dispatch.reserved2 = tag;
  return packet;
}

void submit(HsaQueue* handle, const std::vector<Packet>& packets) {
  Queue_& queue = queue_of(handle);
  uint64_t first = queue.write_index.fetch_add(packets.size());
  for (uint64_t i = 0; i < packets.size(); ++i) {
    while (first + i - queue.read_index.load() >= handle->size) std::this_thread::yield();
    Packet& at = queue.ring[(first + i) % handle->size];
    std::memcpy(reinterpret_cast<char*>(&at) + 2, reinterpret_cast<const char*>(&packets[i]) + 2,
                sizeof at - 2);
    __atomic_store_n(&at.header, packets[i].header, __ATOMIC_RELEASE);
  }
  call<void (*)(Signal, SignalValue)>("hsa_signal_store_screlease")(
      handle->doorbell_signal, static_cast<SignalValue>(first + packets.size() - 1));
}

void wait(Signal signal) {
  while (value_of(signal) > 0) std::this_thread::yield();
}

std::pair<PacketHandler, void*> handler_of(HsaQueue* handle) {
  Queue_& queue = queue_of(handle);
  return {queue.handler, queue.data};
}

std::vector<Packet> seen(HsaQueue* handle) {
  Queue_& queue = queue_of(handle);
  std::lock_guard<std::mutex> guard(queue.hardware);
  return queue.all;
}

void wait_until_empty(HsaQueue* handle) {
  Queue_& queue = queue_of(handle);
  std::unique_lock<std::mutex> guard(queue.hardware);
  queue.changed.wait(guard, [&] { return queue.given.empty() && !queue.busy; });
}

}  // namespace runtime
