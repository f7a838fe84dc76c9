// One program under capture; what it does is in its environment, test_captures.py and its neighbours read
// what came of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <mutex>
#include <thread>

#include "check.h"
#include "common/capture.h"
#include "common/clock.h"
#include "common/gate.h"
#include "common/nvtx_ranges.h"
#include "fake_device.h"

using namespace kerncap;

namespace {

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

// A kernel `scale(float*, int)` over memory of its own, and how it misbehaves.
struct Program {
  std::vector<float> data;
  Kernel kernel;
  Module module;
  Image image;
  uint64_t runs = 0;
  long hang_at = number("HANG_AT", -1), fault_at = number("FAULT_AT", -1), nan_at = number("NAN_AT", -1);
  long odd_run = number("ODD_RUN", -1), refuse_at = number("REFUSE_AT", -1);
  long launch_number = -1;

  explicit Program(const std::string& name = "scale")
      : data(static_cast<size_t>(number("FLOATS", 1000)), 1.0f) {
    kernel.name = "_Z5" + name + "Pfi";
    kernel.demangled = name + "(float*, int)";
    kernel.layout = {{0, 8}, {8, 4}};
    kernel.layout_known = true;
    kernel.parameter_bytes = 12;
    static const uint8_t code[] = ".version 6.4";
    image.kind = Image::Kind::ptx;
    image.data = code;
    image.size = sizeof code - 1;
    module.image = &image;
    kernel.module = &module;
    Allocation allocation;
    allocation.base = reinterpret_cast<uint64_t>(data.data());
    allocation.size = data.size() * sizeof(float);
    allocation.how = "test";
    MemoryMap::instance().add(allocation);
  }

  int device_runs() noexcept {
    ++runs;
    for (float& value : data) value = value * 2 > 1000 ? 1 : value * 2;
    if (launch_number == nan_at) data[7] = std::nanf("");
    if (static_cast<long>(runs) == odd_run) data[3] += 0.25f;
    // The device is busy from one launch to the next.
    if (hang_at >= 0) fake_device().busy_polls = launch_number == hang_at ? -1 : 0;
    if (launch_number == fault_at) fake_device().launch_status = fake_fault;
    return launch_number == refuse_at ? 1 : 0;
  }

  Launch describe() {
    Launch launch;
    launch.kernel = &kernel;
    launch.grid = {static_cast<uint32_t>(launch_number + 1), 1, 1};
    launch.block = {128, 1, 1};
    launch.shared_bytes = 16;
    launch.parameters.assign(12, 0);
    float* pointer = data.data();
    std::memcpy(launch.parameters.data(), &pointer, 8);
    launch.route = number("AS_GRAPH", 0) != 0 ? "cuGraphLaunch node 2" : "cuLaunchKernel";
    return launch;
  }

  // As a wrapper does it.
  int launch() {
    ++launch_number;
    capture::note(kernel, {static_cast<uint32_t>(launch_number), 1, 1}, {128, 1, 1}, nullptr);
    auto call = [](void* context) noexcept { return static_cast<Program*>(context)->device_runs(); };
    int status = 0;
    Launch described;
    if (capture::armed() && capture::look(kernel) && capture::wants(described = describe())) {
      status = capture::run(described, call, this);
    } else {
      gate::Pass pass;
      status = device_runs();
    }
    capture::after_call(status);
    return status;
  }
};

// Kernels live as long as the process, as the registry's do.
Program& make_program(const std::string& name = "scale") {
  static std::mutex mutex;
  static auto* all = new std::vector<Program*>;
  std::lock_guard<std::mutex> lock(mutex);
  all->push_back(new Program(name));
  return *all->back();
}

// The program's own result must be what it would have been without a capture.
float expected(uint64_t launches) {
  float value = 1;
  for (uint64_t i = 0; i < launches; ++i) value = value * 2 > 1000 ? 1 : value * 2;
  return value;
}

}  // namespace

CASE(capture_scenario) {
  long launches = number("LAUNCHES", 3);
  fake_device().capturing = number("CAPTURING", 0) != 0;
  fake_device().clone_bytes_free = static_cast<uint64_t>(number("CLONE_BYTES", 0));
  fake_device().kernels = number("NO_KERNELS", 0) == 0;
  Program& program = make_program();
  Program& other = make_program("other");
  std::string reason;
  for (long i = 0; i < launches; ++i) {
    if (i == number("CHOOSE_AT", -1)) capture::choose(program.kernel.name.c_str(), 5, "1-0/5");
    if (i == number("GRAPH_CHOOSE_AT", -1)) capture::choose_in_graph(program.kernel.name.c_str(), 6, "1-0/6");
    if (i == number("OWN_AT", -1)) capture::own(program.kernel.name.c_str());
    program.launch();
    if (i == number("CHOOSE_AT", -1)) {
      std::printf("fate %d", static_cast<int>(capture::outcome(5, &reason)));
      std::printf(" %s\n", reason.c_str());
      CHECK(capture::outcome(5, &reason) == capture::Fate::not_launched);
    }
    if (number("TWO_KERNELS", 0) != 0) other.launch();
  }
  CHECK(fake_device().entered == 0 && !gate::is_mine() && !gate::Own::active());
  if (number("ODD_RUN", -1) < 0 && number("NAN_AT", -1) < 0)
    CHECK(program.data[0] == expected(static_cast<uint64_t>(launches)));
  std::printf("runs %lu data %g\n", static_cast<unsigned long>(program.runs),
              static_cast<double>(program.data[0]));
}

CASE(capture_while_others_launch) {
  Program& program = make_program();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 7; ++i)
    threads.emplace_back([&stop, i] {
      Program& own = make_program("k" + std::to_string(i));
      while (!stop.load()) {
        own.launch();
        Allocation allocation;
        allocation.base = 0x10000000u * static_cast<uint64_t>(i + 1);
        allocation.size = 4096;
        MemoryMap::instance().add(allocation);
        MemoryMap::instance().remove(allocation.base);
      }
    });
  for (int i = 0; i < 50; ++i) program.launch();
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  CHECK(program.data[0] == expected(50));
}

CASE(capture_in_a_forked_child) {
  Program& program = make_program();
  program.launch();
  pid_t child = fork();
  if (child == 0) {
    program.launch();
    std::exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  program.launch();
}

// Launches for each generation of the session, from 0 on; says when they are made, and waits to be armed.
CASE(capture_when_armed) {
  Program& program = make_program();
  long generations = number("GENERATIONS", 1), launches = number("LAUNCHES", 5);
  for (long generation = 0; generation <= generations; ++generation) {
    for (long i = 0; generation > 0 && i < 5000 && arm::generation() < static_cast<uint64_t>(generation); ++i)
      usleep(2000);
    for (long i = 0; i < launches; ++i) program.launch();
    std::string ready = std::string(std::getenv("READY")) + std::to_string(generation);
    std::fclose(std::fopen(ready.c_str(), "w"));
  }
}

CASE(capture_in_ranges) {
  Program& program = make_program();
  for (const char* name : {"even", "odd", "even", "odd"}) {
    ranges::push(nullptr, "step");
    ranges::push(nullptr, name);
    program.launch();
    ranges::pop(nullptr);
    ranges::pop(nullptr);
  }
}

// What the hook asks for: digests of several allocations, the last of them in two parts.
CASE(capture_digests) {
  constexpr size_t sizes[] = {8, 4096, 4097, 3 * 4096 + 5};
  static std::vector<std::vector<uint64_t>> memory;
  std::vector<unsigned long long> pairs;
  auto add = [](uint64_t base, uint64_t size) {
    Allocation allocation;
    allocation.base = base;
    allocation.size = size;
    allocation.how = "test";
    MemoryMap::instance().add(allocation);
  };
  for (size_t size : sizes) {
    auto* bytes = reinterpret_cast<uint8_t*>(memory.emplace_back(size / 8 + 1).data());
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>((i * 31 + memory.size() - 1) % 251);
    const auto base = reinterpret_cast<uint64_t>(bytes);
    const bool is_last = memory.size() == std::size(sizes);
    if (is_last) add(base, 4096);
    if (!is_last)
      add(base, size);
    else if (number("GAP", 0) == 0)
      add(base + 4096, size - 4096);
    pairs.insert(pairs.end(), {base + static_cast<uint64_t>(number("SHIFT", 0)), size});
  }
  if (number("SHIFT", 0) != 0) pairs[1] = 4;
  fake_device().capturing = number("CAPTURING", 0) != 0;
  fake_device().kernels = number("NO_KERNELS", 0) == 0;
  char text[32 * std::size(sizes) + 1] = "";
  CHECK(capture::armed());
  const bool good = capture::digests(0, pairs.data(), static_cast<long>(std::size(sizes)), text);
  CHECK(fake_device().entered == 0 && !gate::is_mine() && !gate::Own::active());
  for (size_t i = 0; good && i < std::size(sizes); ++i) std::printf("%.32s\n", text + 32 * i);
  if (!good) std::puts("none");
}

// Figures for the reader, no bound.
CASE(capture_cost_of_launches_not_chosen) {
  Program& program = make_program();
  program.launch();
  constexpr int launches = 1000000;
  uint64_t started = now_ns();
  for (int i = 0; i < launches; ++i) {
    capture::note(program.kernel, {1, 1, 1}, {1, 1, 1}, nullptr);
    if (capture::look(program.kernel)) capture::wants(program.describe());
    gate::Pass pass;
    capture::after_call(0);
  }
  std::printf("a launch that is not chosen costs %.1f ns\n",
              static_cast<double>(now_ns() - started) / launches);
}
