// Times an intercepted queue's callback, called as the runtime calls it: the shim's, let in by HSA_TOOLS_LIB
// as a runtime would, and one that only passes its packet on, in turns. The runtime is the tests' stand-in;
// the writer does nothing. Prints one line for each turn: both in nanoseconds a packet.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime.h"

namespace {

using namespace runtime;

constexpr int batch = 20000, turns = 60;

void write_nothing(const void* packets, uint64_t count) {
  __asm__ volatile("" : : "r"(packets), "r"(count) : "memory");
}

void pass_through(const void* packets, uint64_t count, uint64_t, void*, PacketWriter writer) {
  writer(packets, count);
}

double time_ns(PacketHandler handler, void* data, const Packet& packet) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i) handler(&packet, 1, static_cast<uint64_t>(i), data, write_nothing);
  std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / batch;
}

bool let_in() {
  const char* names = std::getenv("HSA_TOOLS_LIB");
  if (names == nullptr) return false;
  std::string first = names;
  first.resize(first.find(' ') == std::string::npos ? first.size() : first.find(' '));
  void* tool = dlopen(first.c_str(), RTLD_NOW);
  if (tool == nullptr) return false;
  using OnLoad = bool (*)(ApiTable*, uint64_t, uint64_t, const char* const*);
  auto on_load = reinterpret_cast<OnLoad>(dlsym(tool, "OnLoad"));
  return on_load != nullptr && on_load(tables(), 0, 0, nullptr);
}

}  // namespace

int main() {
  if (!let_in()) {
    std::fprintf(stderr, "HSA_TOOLS_LIB names no tool that can be let in\n");
    return 1;
  }
  KernelCode kernel{"_Z3addPf.kd", {}, 16};
  load({&kernel});
  float* arguments[2] = {allocate(16), nullptr};
  Packet packet = dispatch(kernel, arguments);
  auto [handler, data] = handler_of(make_queue(16384));
  time_ns(handler, data, packet);  // the first packet of a kernel is asked about
  for (int turn = 0; turn < turns; ++turn) {
    double plain = time_ns(pass_through, nullptr, packet);
    std::printf("%.2f %.2f\n", plain, time_ns(handler, data, packet));
  }
  std::fflush(stdout);
  std::_Exit(0);  // the stand-in's threads have no end
}
