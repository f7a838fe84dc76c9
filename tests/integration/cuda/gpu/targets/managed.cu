// Memory that host and device share: from cudaMallocManaged, and __managed__ variables; on the host's side and on
// the device's when it is launched, advised, prefetched, attached to a stream.
#include "check.h"

constexpr int N = 40000, BLOCK = 256, BLOCKS = (N + BLOCK - 1) / BLOCK;

struct Node {
  int value;
  Node* next;
};

__managed__ int numbers_here[1024];
__managed__ int* behind = nullptr;

__global__ void kc_walk(Node* head, int* sum) {
  for (Node* node = head; node != nullptr; node = node->next) {
    *sum += node->value;
    node->value *= 2;
  }
}
__global__ void kc_variable(int factor) {
  int i = threadIdx.x;
  numbers_here[i] = numbers_here[i] * factor + (behind != nullptr ? behind[i] : 7);
}
__global__ void kc_advised(const int* from, int* to, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] * 3 + 1;
}
__global__ void kc_attached(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += i;
}

#if CUDART_VERSION >= 13000
static cudaMemLocation at(int where) {
  cudaMemLocation location = {};
  location.type = where < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  location.id = where < 0 ? 0 : where;
  return location;
}
static void prefetch(void* x, size_t size, int where) {
  MUST(cudaMemPrefetchAsync(x, size, at(where), 0, nullptr));
}
#else
static int at(int where) {
  return where < 0 ? cudaCpuDeviceId : where;
}
static void prefetch(void* x, size_t size, int where) {
  MUST(cudaMemPrefetchAsync(x, size, at(where), nullptr));
}
#endif

static int* managed(int n, int seed) {
  int* x;
  MUST(cudaMallocManaged(&x, n * sizeof(int)));
  std::vector<int> values = numbers<int>(n, seed);
  for (int i = 0; i < n; ++i) x[i] = values[i];
  return x;
}

static void say(const char* name, const int* x, int n) {
  MUST(cudaDeviceSynchronize());
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(checksum(x, n * sizeof(int))));
}

static void attributes(const char* name, const void* x, size_t size) {
  int read_mostly = 0, preferred = 0, prefetched = 0;
  MUST(cudaMemRangeGetAttribute(&read_mostly, 4, cudaMemRangeAttributeReadMostly, x, size));
  MUST(cudaMemRangeGetAttribute(&preferred, 4, cudaMemRangeAttributePreferredLocation, x, size));
  MUST(cudaMemRangeGetAttribute(&prefetched, 4, cudaMemRangeAttributeLastPrefetchLocation, x, size));
  std::printf("%s read mostly %d, preferred %d, prefetched %d\n", name, read_mostly, preferred, prefetched);
}

int main() {
  int concurrent = 0;
  MUST(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  Node* head = nullptr;
  for (int i = 0; i < 50; ++i) {
    Node* node;
    MUST(cudaMallocManaged(&node, sizeof(Node)));
    *node = {i * i, head};
    head = node;
  }
  int* sum = managed(1, 1);
  kc_walk<<<1, 1>>>(head, sum);
  say("walk", sum, 1);

  for (int i = 0; i < 1024; ++i) numbers_here[i] = i;
  behind = managed(1024, 2);
  kc_variable<<<1, 1024>>>(5);
  say("variable", numbers_here, 1024);

  int *from = managed(N, 3), *to = managed(N, 4);
  size_t size = N * sizeof(int);
  if (concurrent) {
    MUST(cudaMemAdvise(from, size, cudaMemAdviseSetReadMostly, at(0)));
    MUST(cudaMemAdvise(to, size, cudaMemAdviseSetPreferredLocation, at(-1)));
    MUST(cudaMemAdvise(to, size, cudaMemAdviseSetAccessedBy, at(0)));
    prefetch(from, size, 0);
  }
  kc_advised<<<BLOCKS, BLOCK>>>(from, to, N);
  say("advised", to, N);
  if (concurrent) {
    attributes("from", from, size);
    attributes("to", to, size);
  }

  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  int* attached = managed(N, 5);
  MUST(cudaStreamAttachMemAsync(stream, attached, 0, cudaMemAttachSingle));
  MUST(cudaStreamSynchronize(stream));
  kc_attached<<<BLOCKS, BLOCK, 0, stream>>>(attached, N);
  say("attached", attached, N);
}
