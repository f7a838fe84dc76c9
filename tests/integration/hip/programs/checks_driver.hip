// What the driver side of the emulated GPU must do: one case for each call, named by the first argument. Each
// prints what it found; tests/integration/hip/test_rig.py knows what it should be.
#include <dlfcn.h>
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "checks.h"

__global__ void add_index(int* values) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] += i;
}

__global__ void store(int* place, int value) {
  *place = value;
}

__global__ void say(int number) {
  if (threadIdx.x < 2) printf("thread %d says %d\n", (int)threadIdx.x, number);
}

__global__ void wait_for(volatile int* flag, int* seen) {
  while (*flag == 0) {
  }
  *seen = *flag;
}

static void print_values(const char* name, const int* values) {
  const std::vector<int> host = to_host(values, 64);
  std::printf("%s %d %d %d\n", name, host[0], host[1], host[63]);
  std::fflush(stdout);
}

// --- memory --------------------------------------------------------------------------------------------

static void virtual_memory() {
  const size_t bytes = 4 << 20;
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  size_t granularity = 0;
  CHECK(hipMemGetAllocationGranularity(&granularity, &properties, hipMemAllocationGranularityMinimum));
  void *const wanted = reinterpret_cast<void*>(0x7e0000000000), *place = nullptr;
  CHECK(hipMemAddressReserve(&place, bytes, 0, wanted, 0));
  hipMemGenericAllocationHandle_t handle;
  CHECK(hipMemCreate(&handle, bytes, &properties, 0));
  CHECK(hipMemMap(place, bytes, 0, handle, 0));
  hipMemAccessDesc access{};
  access.location = properties.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  CHECK(hipMemSetAccess(place, bytes, &access, 1));
  const std::vector<int> hundred(64, 100);
  CHECK(hipMemcpy(place, hundred.data(), 256, hipMemcpyHostToDevice));
  add_index<<<1, 64>>>(static_cast<int*>(place));
  std::printf("at the wanted address: %d\n", place == wanted);
  print_values("mapped", static_cast<int*>(place));
  CHECK(hipMemUnmap(place, bytes));
  CHECK(hipMemRelease(handle));
  CHECK(hipMemAddressFree(place, bytes));
}

static void out_of_memory() {
  size_t free_bytes = 0, total_bytes = 0;
  CHECK(hipMemGetInfo(&free_bytes, &total_bytes));
  std::printf("total %zu MiB\n", total_bytes >> 20);
  void* much = nullptr;
  std::printf("much: %s\n", hipGetErrorName(hipMalloc(&much, 2ULL << 30)));
  for (int i = 0; i < 8; ++i) {  // more than there is, one after another
    CHECK(hipMalloc(&much, 256 << 20));
    CHECK(hipFree(much));
  }
  int* const little = device_array<int>(64);
  add_index<<<1, 64>>>(little);
  print_values("little", little);
}

static void touch_device_memory() {
  int* const values = device_array<int>(64);
  add_index<<<1, 64>>>(values);
  CHECK(hipDeviceSynchronize());
  print_values("copied", values);
  std::printf("touched %d\n", *reinterpret_cast<volatile int*>(values + 63));
}

static void managed_advice() {
  int* values = nullptr;
  CHECK(hipMallocManaged(&values, 64 * sizeof(int)));
  CHECK(hipMemAdvise(values, 256, hipMemAdviseSetPreferredLocation, 0));
  CHECK(hipMemPrefetchAsync(values, 256, 0, nullptr));
  for (int i = 0; i < 64; ++i) values[i] = 7;
  add_index<<<1, 64>>>(values);
  CHECK(hipDeviceSynchronize());
  hipPointerAttribute_t attributes{};
  CHECK(hipPointerGetAttributes(&attributes, values));
  std::printf("managed %d: %d %d\n", attributes.isManaged, values[0], values[63]);
  CHECK(hipFree(values));
}

// --- code ----------------------------------------------------------------------------------------------

static void runtime_compiled() {
  const char* const source =
      "extern \"C\" __global__ void square(float* a) { a[threadIdx.x] *= a[threadIdx.x]; }";
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, source, "square.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS ||
      hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS) {
    std::printf("hiprtc failed\n");
    std::exit(1);
  }
  size_t size = 0;
  hiprtcGetCodeSize(program, &size);
  std::vector<char> code(size);
  hiprtcGetCode(program, code.data());
  hipModule_t module;
  hipFunction_t function;
  CHECK(hipModuleLoadData(&module, code.data()));
  CHECK(hipModuleGetFunction(&function, module, "square"));
  std::vector<float> values(64);
  for (int i = 0; i < 64; ++i) values[i] = i * .5f;
  float* array = to_device(values);
  void* arguments[] = {&array};
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  const std::vector<float> squares = to_host(array, 64);
  std::printf("squares %g %g %g\n", squares[0], squares[1], squares[63]);
}

static void graph() {
  hipStream_t stream;
  hipGraph_t captured;
  hipGraphExec_t instance;
  CHECK(hipStreamCreate(&stream));
  int* const values = device_array<int>(64);
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  add_index<<<1, 64, 0, stream>>>(values);
  add_index<<<1, 64, 0, stream>>>(values);
  CHECK(hipStreamEndCapture(stream, &captured));
  CHECK(hipGraphInstantiate(&instance, captured, nullptr, nullptr, 0));
  for (int i = 0; i < 3; ++i) CHECK(hipGraphLaunch(instance, stream));
  CHECK(hipStreamSynchronize(stream));
  print_values("graph", values);
}

static void device_printf() {
  say<<<1, 64>>>(42);
  CHECK(hipDeviceSynchronize());
}

// A kernel that waits for another one, on another queue, and for the host.
static void concurrent() {
  int *flag = nullptr, *seen = device_array<int>(64), *fast = device_array<int>(64);
  CHECK(hipHostMalloc(&flag, sizeof *flag, hipHostMallocCoherent));
  *flag = 0;
  CHECK(hipDeviceSynchronize());  // the fills are the default stream's, for which the next two do not wait
  hipStream_t first, second;
  CHECK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  CHECK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  wait_for<<<1, 1, 0, first>>>(flag, seen);
  add_index<<<1, 64, 0, second>>>(fast);
  CHECK(hipStreamSynchronize(second));
  std::printf("first is done: %d\n", hipStreamQuery(first) == hipSuccess);
  __atomic_store_n(flag, 5, __ATOMIC_RELEASE);
  CHECK(hipStreamSynchronize(first));
  print_values("seen", seen);
}

// --- failures ------------------------------------------------------------------------------------------

static void write_nowhere() {
  device_array<int>(64);
  store<<<1, 1>>>(reinterpret_cast<int*>(0x1234567040), 1);
  std::printf("after it: %d\n", hipDeviceSynchronize());
}

static hsa_status_t on_event(const hsa_amd_event_t* event, void*) {
  std::printf("event %d, page %#lx, reasons %#x\n", event->event_type, event->memory_fault.virtual_address,
              event->memory_fault.fault_reason_mask);
  std::fflush(stdout);
  _exit(7);
}

static void handle_fault() {
  device_array<int>(64);
  void* const hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW);
  const auto set_handler = reinterpret_cast<decltype(&hsa_amd_register_system_event_handler)>(
      dlsym(hsa, "hsa_amd_register_system_event_handler"));
  std::printf("registered: %d\n", set_handler(on_event, nullptr));
  store<<<1, 1>>>(reinterpret_cast<int*>(0x1234567040), 1);
  CHECK(hipDeviceSynchronize());
}

static void three_kernels() {
  int* const values = device_array<int>(64);
  for (int i = 1; i <= 3; ++i) {
    add_index<<<1, 64>>>(values);
    const hipError_t status = hipDeviceSynchronize();
    if (status != hipSuccess) {
      std::printf("kernel %d: %s\n", i, hipGetErrorName(status));
      std::exit(3);
    }
    print_values("kernel", values);
  }
}

// --- processes, devices, time --------------------------------------------------------------------------

static int ended(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void in_the_child() {
  alarm(5);
  void* memory = nullptr;
  _exit(hipMalloc(&memory, 64 << 20) == hipSuccess ? 1
                                                   : 0);  // as on hardware, the parent's runtime is of no use
}

static void forked(const char* program) {
  int* const values = device_array<int>(64);
  add_index<<<1, 64>>>(values);
  print_values("before", values);
  pid_t child = fork();
  if (child == 0) in_the_child();
  std::printf("the child could allocate: %d\n", ended(child) == 1);
  add_index<<<1, 64>>>(values);
  print_values("after", values);
  child = fork();
  if (child == 0) {
    execl(std::getenv("AMD_GPU_RUN"), "run", program, "three_kernels", nullptr);
    _exit(99);
  }
  std::printf("anew: %d\n", ended(child));
  add_index<<<1, 64>>>(values);
  print_values("at the end", values);
}

static void devices() {
  int count = 0;
  CHECK(hipGetDeviceCount(&count));
  std::vector<int*> arrays;
  for (int device = 0; device < count; ++device) {
    CHECK(hipSetDevice(device));
    arrays.push_back(to_device(std::vector<int>(64, 1000 * device)));
    add_index<<<1, 64>>>(arrays.back());
    print_values("device", arrays.back());
  }
  if (count < 2) return;
  CHECK(hipMemcpyPeer(arrays[0], 0, arrays[1], 1, 256));
  CHECK(hipSetDevice(0));
  print_values("copied to 0", arrays[0]);
}

static double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void times() {
  using clock = std::chrono::steady_clock;
  int* const value = device_array<int>(64);
  store<<<1, 1>>>(value, 0);
  CHECK(hipDeviceSynchronize());
  double best_us = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto begin = clock::now();
    store<<<1, 1>>>(value, i);
    CHECK(hipDeviceSynchronize());
    best_us = std::min(best_us, std::chrono::duration<double, std::micro>(clock::now() - begin).count());
  }
  const double before = cpu_seconds();
  usleep(500000);
  std::printf("%.1f us a launch, %.1f %% of a core idle\n", best_us, (cpu_seconds() - before) * 200);
}

int main(int, char** arguments) {
  const std::string name = arguments[1] == nullptr ? "" : arguments[1];
  static const struct {
    const char* name;
    void (*run)();
  } cases[] = {{"virtual_memory", virtual_memory},
               {"out_of_memory", out_of_memory},
               {"touch_device_memory", touch_device_memory},
               {"managed_advice", managed_advice},
               {"runtime_compiled", runtime_compiled},
               {"graph", graph},
               {"device_printf", device_printf},
               {"concurrent", concurrent},
               {"write_nowhere", write_nowhere},
               {"handle_fault", handle_fault},
               {"three_kernels", three_kernels},
               {"devices", devices},
               {"times", times}};
  for (const auto& known : cases) {
    if (name != known.name) continue;
    known.run();
    return 0;
  }
  if (name != "forked") return std::printf("no case %s\n", name.c_str()), 2;
  forked(arguments[0]);
  return 0;
}
