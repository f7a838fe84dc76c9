// What users try first, and no other program here does: cases MODE, where MODE is launches, spawn or sparse.
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>
#include <cstring>

__device__ int total = 5;

__global__ void tick() {
  if (threadIdx.x == 0) total = total * 3 + 2;
}

__global__ void __launch_bounds__(64, 2) bounded(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] + 1.0f;
}

__global__ void advance(int* x, int step, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 3 + step;
}

__global__ void pooled(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i];
}

template <class F>
__global__ void apply(F f, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = f(i);
}

// A writer that would change the input while it is copied, were it not held back: see snapshot().
__global__ void writer(int* x, int value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}

__global__ void reader(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}

__global__ void sum_of_pages(const int* x, const int* pages, int* y) {
  int sum = 0;
  for (int k = 0; k < 16; ++k) sum += x[pages[blockIdx.x] * 1024 + k * 64 + threadIdx.x];
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}

static void report_total(const char* name) {
  CHECK(hipDeviceSynchronize());
  int value = 0;
  void* place = nullptr;
  CHECK(hipMemcpyFromSymbol(&value, HIP_SYMBOL(total), sizeof value));
  CHECK(hipGetSymbolAddress(&place, HIP_SYMBOL(total)));
  print(name, place, &value, sizeof value);
}

static int launches() {
  tick<<<1, 64>>>();
  report_total("tick_0");
  tick<<<1, 64>>>();
  report_total("tick_1");

  const int n = 200;
  float *x = to_device(ramp(n, 0.25f)), *y = zeros<float>(n);
  bounded<<<(n + 63) / 64, 64>>>(x, y, n);
  report("bounded", y, n * sizeof(float));

  const float slope = 0.75f;
  float* line = zeros<float>(n);
  apply<<<(n + 63) / 64, 64>>>([=] __device__(int i) { return slope * static_cast<float>(i) + x[i % n]; },
                               line, n);
  report("lambda", line, n * sizeof(float));

  int* steps = to_device(std::vector<int>(n, 1));
  for (int step = 0; step < 4; ++step) {
    advance<<<(n + 63) / 64, 64>>>(steps, step, n);
    char name[] = "advance_0";
    name[8] = static_cast<char>('0' + step);
    report(name, steps, n * sizeof(int));
  }

  // Memory of the stream's own pool, given back and taken again in between.
  hipStream_t stream;
  CHECK(hipStreamCreate(&stream));
  int *from = nullptr, *to = nullptr;
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) host[i] = i * i;
  for (int round = 0; round < 2; ++round) {
    CHECK(hipMallocAsync(reinterpret_cast<void**>(&from), n * sizeof(int), stream));
    CHECK(hipMallocAsync(reinterpret_cast<void**>(&to), n * sizeof(int), stream));
    CHECK(hipMemcpyAsync(from, host.data(), n * sizeof(int), hipMemcpyHostToDevice, stream));
    pooled<<<(n + 63) / 64, 64, 0, stream>>>(from, to, n);
    report(round ? "pooled_1" : "pooled_0", to, n * sizeof(int));
    CHECK(hipFreeAsync(from, stream));
    CHECK(hipFreeAsync(to, stream));
  }

  // A second stream writes the reader's input as soon as the reader was launched, and before it.
  hipStream_t other;
  CHECK(hipStreamCreate(&other));
  int *shared = to_device(std::vector<int>(n, 7)), *seen = zeros<int>(n);
  writer<<<(n + 63) / 64, 64, 0, other>>>(shared, 40, n);
  CHECK(hipStreamSynchronize(other));
  reader<<<(n + 63) / 64, 64, 0, stream>>>(shared, seen, n);
  CHECK(hipStreamSynchronize(stream));
  writer<<<(n + 63) / 64, 64, 0, other>>>(shared, 90, n);
  report("reader", seen, n * sizeof(int));
  return 0;
}

// Reads ten pages of a thousand.
static int sparse() {
  const int words = 1024 * 1024;
  std::vector<int> host(words);
  unsigned state = 1;
  for (int& word : host) word = static_cast<int>(state = state * 1664525u + 1013904223u) >> 8;
  std::vector<int> pages;
  for (int i = 0; i < 10; ++i) pages.push_back((i * 379 + 17) % 1024);
  int *x = to_device(host), *chosen = to_device(pages), *y = zeros<int>(640);
  sum_of_pages<<<10, 64>>>(x, chosen, y);
  report("sum_of_pages", y, 640 * sizeof(int));
  return 0;
}

// A parent that never touches the GPU starts the program anew in a session of its own.
static int spawned(const char* self) {
  const char* run = std::getenv("AMD_GPU_RUN");
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (run != nullptr) execl(run, run, self, "launches", static_cast<char*>(nullptr));
    execl(self, self, "launches", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

int main(int count, char** words) {
  const char* mode = count > 1 ? words[1] : "";
  if (!std::strcmp(mode, "launches")) return launches();
  if (!std::strcmp(mode, "spawn")) return spawned(words[0]);
  if (!std::strcmp(mode, "sparse")) return sparse();
  return 2;
}
