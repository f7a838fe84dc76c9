// A kernel on device 0 that reads device 1's memory.
//   peer           in one process, by peer access
//   peer ipc       memory of another process, opened from its handle
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "check.h"

constexpr int n = 50000;

__global__ void add_peer(const float* peer, float* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = peer[i] + 1;
}

__global__ void fill(float* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 3.0f * i;
}

float* filled(int device) {
  float* memory;
  MUST(cudaSetDevice(device));
  MUST(cudaMalloc(&memory, n * sizeof(float)));
  fill<<<(n + 255) / 256, 256>>>(memory, n);
  MUST(cudaDeviceSynchronize());
  return memory;
}

void add_and_print(const float* peer) {
  float* out;
  MUST(cudaMalloc(&out, n * sizeof(float)));
  add_peer<<<(n + 255) / 256, 256>>>(peer, out, n);
  std::vector<float> host(n);
  MUST(cudaMemcpy(host.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::printf("%g %g\n", host[0], host[n - 1]);
}

int in_one_process() {
  float* peer = filled(1);
  MUST(cudaSetDevice(0));
  MUST(cudaDeviceEnablePeerAccess(1, 0));
  add_and_print(peer);
  return 0;
}

int from_another_process() {
  int handles[2], done[2];
  if (pipe(handles) != 0 || pipe(done) != 0) return 1;
  pid_t child = fork();
  cudaIpcMemHandle_t handle;
  char end = 0;
  if (child == 0) {
    float* memory = filled(1);
    MUST(cudaIpcGetMemHandle(&handle, memory));
    if (write(handles[1], &handle, sizeof handle) != sizeof handle) _exit(1);
    ssize_t ignored = read(done[0], &end, 1);
    (void)ignored;
    _exit(0);
  }
  if (read(handles[0], &handle, sizeof handle) != sizeof handle) return 1;
  void* peer = nullptr;
  MUST(cudaSetDevice(0));
  MUST(cudaIpcOpenMemHandle(&peer, handle, cudaIpcMemLazyEnablePeerAccess));
  add_and_print(static_cast<const float*>(peer));
  if (write(done[1], &end, 1) != 1) return 1;
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char** argv) {
  return argc > 1 && std::strcmp(argv[1], "ipc") == 0 ? from_another_process() : in_one_process();
}
