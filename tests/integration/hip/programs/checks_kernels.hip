// Kernels of every kind that the emulated GPU must run, each compared with the host's own result.
// Prints one line for each check, and ends with the number of those that failed.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdint>
#include <numeric>

#include "checks.h"

static int failed = 0;

static void report(const char* name, bool ok) {
  std::printf("%s: %s\n", name, ok ? "ok" : "WRONG");
  failed += ok ? 0 : 1;
}

template <class T, class Expected>
static void compare(const char* name, const std::vector<T>& found, Expected expected, double tolerance) {
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(found[i]) - static_cast<double>(expected(i)));
    if (difference <= tolerance) continue;
    std::printf("%s[%zu]: expected %g, found %g\n", name, i, static_cast<double>(expected(i)),
                static_cast<double>(found[i]));
    return report(name, false);
  }
  report(name, true);
}

// --- LDS and barriers ----------------------------------------------------------------------------------

__global__ void sum_blocks(const float* values, float* total, int count) {
  __shared__ float parts[256];
  const int thread = threadIdx.x, i = blockIdx.x * 256 + thread;
  parts[thread] = i < count ? values[i] : 0;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (thread < half) parts[thread] += parts[thread + half];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(total, parts[0]);
}

static void check_reduction() {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (i % 17) * .25f;  // exact in any order
  float* const total = device_array<float>(1);
  sum_blocks<<<(values.size() + 255) / 256, 256>>>(to_device(values), total, values.size());
  const float expected = std::accumulate(values.begin(), values.end(), 0.f);
  compare("reduction", to_host(total, 1), [&](size_t) { return expected; }, 0);
}

__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[16][16], tile_b[16][16];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile_a[y][x] = a[row * n + k + x];
    tile_b[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

static void check_matrix() {
  const int n = 48;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = (i % 7) - 3, b[i] = (i % 5) - 2;
  float* const c = device_array<float>(n * n);
  multiply<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(to_device(a), to_device(b), c, n);
  const auto expected = [&](size_t i) {
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[i / n * n + k] * b[k * n + i % n];
    return sum;
  };
  compare("matrix", to_host(c, n * n), expected, 0);
}

// --- atomics, shuffles ---------------------------------------------------------------------------------

__global__ void count_bytes(const uint8_t* bytes, unsigned* counts, int count) {
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) atomicAdd(&counts[bytes[i]], 1u);
}

static void check_histogram() {
  std::vector<uint8_t> bytes(4000);
  std::vector<unsigned> expected(256);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = i * i / 3;
    expected[bytes[i]]++;
  }
  unsigned* const counts = device_array<unsigned>(256);
  count_bytes<<<4, 128>>>(to_device(bytes), counts, bytes.size());
  compare("histogram", to_host(counts, 256), [&](size_t i) { return expected[i]; }, 0);
}

__global__ void softmax(const float* x, float* y, int columns) {
  const float* const row = x + blockIdx.x * columns;
  float largest = -1e30f, sum = 0;
  for (int c = threadIdx.x; c < columns; c += 64) largest = fmaxf(largest, row[c]);
  for (int lane = 32; lane; lane >>= 1) largest = fmaxf(largest, __shfl_xor(largest, lane));
  for (int c = threadIdx.x; c < columns; c += 64) sum += expf(row[c] - largest);
  for (int lane = 32; lane; lane >>= 1) sum += __shfl_xor(sum, lane);
  for (int c = threadIdx.x; c < columns; c += 64) y[blockIdx.x * columns + c] = expf(row[c] - largest) / sum;
}

static void check_softmax() {
  const int rows = 3, columns = 200;
  std::vector<float> x(rows * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = sinf(i) * 3;
  float* const y = device_array<float>(x.size());
  softmax<<<rows, 64>>>(to_device(x), y, columns);
  const auto expected = [&](size_t i) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += exp(x[i / columns * columns + c]);
    return exp(x[i]) / sum;
  };
  compare("softmax", to_host(y, x.size()), expected, 1e-6);
}

// --- types ---------------------------------------------------------------------------------------------

__global__ void doubles(const double* x, double* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = sqrt(x[i]) + sin(x[i]) * 1.5 / (x[i] + 1.0);
}

static void check_double() {
  std::vector<double> x(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i * .37;
  double* const y = device_array<double>(x.size());
  doubles<<<1, 128>>>(to_device(x), y, x.size());
  const auto expected = [&](size_t i) { return sqrt(x[i]) + sin(x[i]) * 1.5 / (x[i] + 1.0); };
  compare("double", to_host(y, x.size()), expected, 1e-12);
}

__global__ void halves(const __half* x, __half* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = __hadd(__hmul(x[i], __float2half(2.f)), __float2half(1.f));
}

static void check_half() {
  std::vector<__half> x(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = __float2half(i * .5f);
  __half* const y = device_array<__half>(x.size());
  halves<<<1, 128>>>(to_device(x), y, x.size());
  std::vector<float> found;
  for (const __half value : to_host(y, x.size())) found.push_back(__half2float(value));
  compare("half", found, [](size_t i) { return i + 1.f; }, 0);
}

__global__ void integers(const int64_t* x, int64_t* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = (x[i] * 1234567891LL) % 97 + x[i] / 7;
}

static void check_integer() {
  std::vector<int64_t> x(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<int64_t>(i) - 50) * 1000003;
  int64_t* const y = device_array<int64_t>(x.size());
  integers<<<1, 128>>>(to_device(x), y, x.size());
  const auto expected = [&](size_t i) { return (x[i] * 1234567891LL) % 97 + x[i] / 7; };
  compare("integer", to_host(y, x.size()), expected, 0);
}

// --- memory of every kind ------------------------------------------------------------------------------

struct Node {
  Node* next;
  int value;
};

__global__ void follow(Node* const* heads, int* sums, int count) {
  const int i = threadIdx.x;
  if (i >= count) return;
  int sum = 0;
  for (const Node* node = heads[i]; node != nullptr; node = node->next) sum += node->value;
  sums[i] = sum;
}

static void check_pointers() {
  Node* const pool = device_array<Node>(64);
  std::vector<Node> nodes(64);
  std::vector<Node*> heads(8);
  for (int i = 0; i < 64; ++i) nodes[i] = {i + 8 < 64 ? pool + i + 8 : nullptr, i};
  for (int i = 0; i < 8; ++i) heads[i] = pool + i;
  CHECK(hipMemcpy(pool, nodes.data(), nodes.size() * sizeof(Node), hipMemcpyHostToDevice));
  int* const sums = device_array<int>(8);
  follow<<<1, 64>>>(to_device(heads), sums, 8);
  compare("pointers", to_host(sums, 8), [](size_t i) { return 8 * i + 8 * 28; }, 0);
}

__device__ int counter;
__constant__ float factors[4];

__global__ void use_variables(float* out) {
  if (threadIdx.x == 0) atomicAdd(&counter, 5);
  out[threadIdx.x] = factors[threadIdx.x % 4];
}

static void check_variables() {
  const float values[4] = {1, 2, 3, 4};
  CHECK(hipMemcpyToSymbol(HIP_SYMBOL(factors), values, sizeof values));
  float* const out = device_array<float>(64);
  use_variables<<<3, 64>>>(out);
  int count = 0;
  CHECK(hipMemcpyFromSymbol(&count, HIP_SYMBOL(counter), sizeof count));
  compare("constant variable", to_host(out, 64), [](size_t i) { return i % 4 + 1; }, 0);
  report("device variable", count == 15);
}

__host__ __device__ int walk(int thread, int step) {
  int places[64], sum = 0;
  for (int i = 0; i < 64; ++i) places[i] = i * step + thread;
  for (int i = 0; i < 64; ++i) sum += places[i * step & 63];
  return sum;
}

__global__ void use_scratch(int* out, int step) {
  out[threadIdx.x] = walk(threadIdx.x, step);
}

static void check_scratch() {
  int* const out = device_array<int>(64);
  use_scratch<<<1, 64>>>(out, 3);
  compare("scratch", to_host(out, 64), [](size_t i) { return walk(i, 3); }, 0);
}

static void check_host_memory() {
  int *managed = nullptr, *pinned = nullptr;
  CHECK(hipMallocManaged(&managed, 64 * sizeof(int)));
  CHECK(hipHostMalloc(&pinned, 64 * sizeof(int)));
  use_scratch<<<1, 64>>>(managed, 3);
  use_scratch<<<1, 64>>>(pinned, 5);
  CHECK(hipDeviceSynchronize());
  compare("managed memory", std::vector<int>(managed, managed + 64), [](size_t i) { return walk(i, 3); }, 0);
  compare("pinned memory", std::vector<int>(pinned, pinned + 64), [](size_t i) { return walk(i, 5); }, 0);
}

// --- streams -------------------------------------------------------------------------------------------

static void check_streams() {
  hipStream_t first, second;
  hipEvent_t begin, end;
  CHECK(hipStreamCreate(&first));
  CHECK(hipStreamCreate(&second));
  CHECK(hipEventCreate(&begin));
  CHECK(hipEventCreate(&end));
  const int count = 1 << 14;
  float* const ones = to_device(std::vector<float>(count, 1.f));
  float* const total = device_array<float>(1);
  CHECK(hipEventRecord(begin, first));
  sum_blocks<<<count / 256, 256, 0, first>>>(ones, total, count);
  CHECK(hipEventRecord(end, first));
  CHECK(hipStreamWaitEvent(second, end, 0));
  sum_blocks<<<count / 256, 256, 0, second>>>(ones, total, count);
  CHECK(hipStreamSynchronize(second));
  float milliseconds = -1;
  CHECK(hipEventElapsedTime(&milliseconds, begin, end));
  compare("streams", to_host(total, 1), [&](size_t) { return 2 * count; }, 0);
  report("event time", milliseconds > 0 && milliseconds < 60000);
}

int main() {
  hipDeviceProp_t properties;
  CHECK(hipGetDeviceProperties(&properties, 0));
  std::printf("on %s, %s\n", properties.gcnArchName, properties.name);
  check_reduction();
  check_matrix();
  check_histogram();
  check_softmax();
  check_double();
  check_half();
  check_integer();
  check_pointers();
  check_variables();
  check_scratch();
  check_host_memory();
  check_streams();
  std::printf("%d wrong\n", failed);
  return failed;
}
