// One program with many small kernels, each with its own way of reaching memory. Built as a user
// builds: one source file, no kerncap in it. Needs --extended-lambda.
#include <cstring>
#include <thread>

#include "check.h"

constexpr int N = 1 << 16;
constexpr int BLOCK = 256;
constexpr int BLOCKS = N / BLOCK;

__device__ int visits[4];

__global__ void kc_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void kc_scale(float* x, float s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= s;
}

__global__ void kc_histogram(const unsigned* x, unsigned* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[x[i] % 64], 1u);
}

// Pointers to pointers: nothing but the table is an argument.
__global__ void kc_table(float* const* rows, int count, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0;
  for (int r = 1; r < count; ++r) sum += rows[r][i];
  rows[0][i] = sum;
}

struct Mesh {
  int count;
  char tag;  // leaves padding in the parameter
  const float* from;
  struct Inner {
    float* to;
    float factor;
  } inner;
};

__global__ void kc_struct(Mesh mesh) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < mesh.count) mesh.inner.to[i] = mesh.from[i] * mesh.inner.factor + mesh.tag;
}

__global__ void kc_struct_in_memory(const Mesh* mesh) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < mesh->count) mesh->inner.to[i] = mesh->from[i] - mesh->inner.factor;
}

template <typename T, int STEPS>
__global__ void __launch_bounds__(BLOCK) kc_template(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int step = 0; step < STEPS; ++step) x[i] = x[i] * T(2) + T(1);
}

namespace {
struct Shift {
  unsigned by;
  __device__ unsigned operator()(unsigned v) const { return v << by; }
};
template <class F>
__global__ void kc_anonymous(unsigned* x, F f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = f(x[i]);
}
}  // namespace

template <class F>
__global__ void kc_lambda(F f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) f(i);
}

struct Node {
  float value;
  Node* next;
};

// Every node lies in an allocation of its own; the sum goes into each of them.
__global__ void kc_list(Node* head) {
  float sum = 0;
  for (Node* at = head; at; at = at->next) sum += at->value;
  for (Node* at = head; at; at = at->next) at->value = sum - at->value;
}

struct Bucket {
  unsigned key;
  unsigned value;
  const Bucket* next;
};

__global__ void kc_hash(const Bucket* const* table, unsigned mask, const unsigned* keys, unsigned* found,
                        int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned answer = ~0u;
  for (const Bucket* at = table[(keys[i] * 2654435761u >> 7) & mask]; at; at = at->next) {
    if (at->key == keys[i]) answer = at->value;
  }
  found[i] = answer;
}

// Its effect is on a module's variable alone.
__global__ void kc_no_arguments() {
  if (threadIdx.x < 4) visits[threadIdx.x] = visits[threadIdx.x] * 3 + int(threadIdx.x) + 1;
}

__global__ void kc_managed(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 5 + 2;
}

__global__ void kc_pinned(const int* host_in, int* host_out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) host_out[i] = host_in[i] ^ 0x55;
}

__global__ void kc_pool(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i] + 7;
}

__global__ void kc_side_stream(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] + 0.5f;
}

// More than the 48 KiB that a kernel gets unasked.
__global__ void kc_large_shared(const unsigned* x, unsigned* y, int words) {
  extern __shared__ unsigned tile[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = x[blockIdx.x * words + i];
  __syncthreads();
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    y[blockIdx.x * words + i] = tile[words - 1 - i] + tile[(i * 7) % words];
  }
}

namespace {

template <typename T>
T* buffer(uint32_t seed) {
  return on_device(numbers<T>(N, seed));
}

void plain_arguments() {
  float *a = buffer<float>(1), *b = buffer<float>(2), *c = buffer<float>(3);
  for (int k = 0; k < 2; ++k) kc_add<<<BLOCKS, BLOCK>>>(a, b, c, N);
  report("add", c, N);
  for (int k = 0; k < 3; ++k) kc_scale<<<BLOCKS, BLOCK>>>(a, 1.5f, N);
  report("scale", a, N);
  unsigned* x = buffer<unsigned>(4);
  unsigned* bins = on_device(std::vector<unsigned>(64, 10));
  for (int k = 0; k < 2; ++k) kc_histogram<<<BLOCKS, BLOCK>>>(x, bins, N);
  report("histogram", bins, 64);
  kc_template<float, 3><<<BLOCKS, BLOCK>>>(b, N);
  kc_template<unsigned, 2><<<BLOCKS, BLOCK>>>(x, N);
  report("template float", b, N);
  report("template unsigned", x, N);
  kc_anonymous<<<BLOCKS, BLOCK>>>(x, Shift{3}, N);
  report("anonymous", x, N);
  unsigned* to = buffer<unsigned>(5);
  kc_lambda<<<BLOCKS, BLOCK>>>([=] __device__(int i) { to[i] = x[i] + unsigned(i); }, N);
  report("lambda", to, N);
}

void pointers_in_memory() {
  std::vector<float*> rows;
  for (uint32_t r = 0; r < 5; ++r) rows.push_back(buffer<float>(10 + r));
  float** table = on_device(rows);
  kc_table<<<BLOCKS, BLOCK>>>(table, 5, N);
  report("table", rows[0], N);

  float *from = buffer<float>(20), *to = buffer<float>(21);
  Mesh mesh;
  std::memset(&mesh, 0xA5, sizeof mesh);  // padding that looks like an address must harm nothing
  mesh.count = N;
  mesh.tag = 3;
  mesh.from = from;
  mesh.inner.to = to;
  mesh.inner.factor = 2.0f;
  kc_struct<<<BLOCKS, BLOCK>>>(mesh);
  report("struct", to, N);
  Mesh* in_memory = on_device(std::vector<Mesh>{mesh});
  kc_struct_in_memory<<<BLOCKS, BLOCK>>>(in_memory);
  report("struct in memory", to, N);

  Node* head = nullptr;
  for (int i = 0; i < 40; ++i) head = on_device(std::vector<Node>{Node{float(i), head}});
  kc_list<<<1, 1>>>(head);
  Node first;
  MUST(cudaMemcpy(&first, head, sizeof first, cudaMemcpyDeviceToHost));
  std::printf("list %.1f\n", first.value);

  const unsigned size = 512;
  std::vector<const Bucket*> buckets(size, nullptr);
  for (unsigned key = 0; key < 600; ++key) {
    unsigned slot = (key * 2654435761u >> 7) & (size - 1);
    buckets[slot] = on_device(std::vector<Bucket>{Bucket{key, key * key, buckets[slot]}});
  }
  const Bucket** of_device = on_device(buckets);
  unsigned *keys = buffer<unsigned>(30), *found = buffer<unsigned>(31);
  kc_hash<<<BLOCKS, BLOCK>>>(of_device, size - 1, keys, found, N);
  report("hash", found, N);
}

void kinds_of_memory() {
  for (int k = 0; k < 2; ++k) kc_no_arguments<<<1, 32>>>();
  int* address;
  MUST(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), visits));
  report("no arguments", address, 4);

  int* managed;
  MUST(cudaMallocManaged(&managed, N * sizeof(int)));
  for (int i = 0; i < N; ++i) managed[i] = i;
  kc_managed<<<BLOCKS, BLOCK>>>(managed, N);
  MUST(cudaDeviceSynchronize());
  std::printf("managed %016llx\n", static_cast<unsigned long long>(checksum(managed, N * sizeof(int))));

  int *in, *out;
  MUST(cudaMallocHost(&in, N * sizeof(int)));
  MUST(cudaMallocHost(&out, N * sizeof(int)));
  for (int i = 0; i < N; ++i) in[i] = i * 3;
  std::memset(out, 0, N * sizeof(int));
  kc_pinned<<<BLOCKS, BLOCK>>>(in, out, N);
  MUST(cudaDeviceSynchronize());
  std::printf("pinned %016llx\n", static_cast<unsigned long long>(checksum(out, N * sizeof(int))));

  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  int *x = buffer<int>(40), *from_pool, *to;
  MUST(cudaMallocAsync(&from_pool, N * sizeof(int), stream));
  MUST(cudaMallocAsync(&to, N * sizeof(int), stream));
  MUST(cudaMemcpyAsync(from_pool, x, N * sizeof(int), cudaMemcpyDeviceToDevice, stream));
  kc_pool<<<BLOCKS, BLOCK, 0, stream>>>(from_pool, to, N);
  MUST(cudaStreamSynchronize(stream));
  report("pool", to, N);
  MUST(cudaFreeAsync(from_pool, stream));
  MUST(cudaFreeAsync(to, stream));
  MUST(cudaStreamSynchronize(stream));
}

void streams() {
  float *a = buffer<float>(50), *b = buffer<float>(51);
  auto work = [](float* x) {
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k = 0; k < 50; ++k) kc_side_stream<<<BLOCKS, BLOCK, 0, stream>>>(x, N);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamDestroy(stream));
  };
  std::thread one(work, a), other(work, b);
  one.join();
  other.join();
  report("stream one", a, N);
  report("stream other", b, N);
}

void shared_memory() {
  const int words = 40 * 1024, bytes = words * 4, blocks = 3;  // 160 KiB a block
  unsigned* x = on_device(numbers<unsigned>(size_t(words) * blocks, 60));
  unsigned* y = on_device(std::vector<unsigned>(size_t(words) * blocks, 0));
  MUST(cudaFuncSetAttribute(kc_large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kc_large_shared<<<blocks, 512, bytes>>>(x, y, words);
  report("large shared", y, size_t(words) * blocks);
}

}  // namespace

int main() {
  plain_arguments();
  pointers_in_memory();
  kinds_of_memory();
  streams();
  shared_memory();
  MUST(cudaDeviceSynchronize());
  std::printf("done\n");
}
