// Ranks as processes, each with a window that all others import: ranks COUNT WAY. WAY is "vmm" or "ipc". Each
// kernel of ranks_kernels.h is launched twice. Ranks share a device where there are fewer devices than ranks.
#include <cuda.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "ranks_kernels.h"

constexpr int n = 3000, side = 64, rounds = 2, most = 8;
constexpr size_t window_bytes = 2 << 20;

struct Shared {
  struct Rank {
    cudaIpcMemHandle_t handle;
    std::atomic<int> steps;
    unsigned long long sums[3 * rounds];
  } ranks[most];
}* shared;

int count = 2, sockets[most][most][2];  // from one rank to another

#define DRIVER(call) driver((call), #call, __LINE__)
void driver(CUresult status, const char* what, int line) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "line %d: %s: %d\n", line, what, status);
  std::exit(3);
}

void meet(int rank, int step) {
  shared->ranks[rank].steps = step;
  for (int i = 0; i < count; ++i)
    while (shared->ranks[i].steps < step) usleep(50);
}

struct Passed {
  char byte = 0, room[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {&byte, 1};
  msghdr message = {};
  Passed() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
  }
  cmsghdr* header() { return CMSG_FIRSTHDR(&message); }
};

void send_fd(int socket, int fd) {
  Passed passed;
  cmsghdr* header = passed.header();
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(socket, &passed.message, 0) != 1) std::exit(4);
}

int receive_fd(int socket) {
  Passed passed;
  int fd = -1;
  if (recvmsg(socket, &passed.message, 0) != 1) std::exit(5);
  std::memcpy(&fd, CMSG_DATA(passed.header()), sizeof fd);
  return fd;
}

CUmemAccessDesc access_of(int device) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

char* map(CUmemGenericAllocationHandle handle, int device) {
  CUdeviceptr base;
  DRIVER(cuMemAddressReserve(&base, window_bytes, 0, 0, 0));
  DRIVER(cuMemMap(base, window_bytes, 0, handle, 0));
  const CUmemAccessDesc access = access_of(device);
  DRIVER(cuMemSetAccess(base, window_bytes, &access, 1));
  DRIVER(cuMemRelease(handle));
  return reinterpret_cast<char*>(base);
}

void share(bool is_vmm, int rank, int device, std::vector<Window>& windows) {
  if (is_vmm) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = access_of(device).location;
    CUmemGenericAllocationHandle handle;
    int fd = -1;
    DRIVER(cuMemCreate(&handle, window_bytes, &properties, 0));
    DRIVER(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    for (int i = 0; i < count; ++i)
      if (i != rank) send_fd(sockets[rank][i][0], fd);
    close(fd);
    windows[rank].base = map(handle, device);
  } else {
    MUST(cudaMalloc(&windows[rank].base, window_bytes));
    MUST(cudaIpcGetMemHandle(&shared->ranks[rank].handle, windows[rank].base));
  }
  MUST(cudaMemset(windows[rank].base, 0, window_bytes));
  MUST(cudaDeviceSynchronize());
  meet(rank, 1);
  for (int i = 0; i < count; ++i) {
    if (i == rank) continue;
    if (is_vmm) {
      int fd = receive_fd(sockets[i][rank][1]);
      CUmemGenericAllocationHandle handle;
      DRIVER(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      close(fd);
      windows[i].base = map(handle, device);
    } else {
      void* base;
      MUST(cudaIpcOpenMemHandle(&base, shared->ranks[i].handle, cudaIpcMemLazyEnablePeerAccess));
      windows[i].base = static_cast<char*>(base);
    }
  }
}

int run(int rank, bool is_vmm) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  int devices = 0, step = 1;
  MUST(cudaGetDeviceCount(&devices));
  const int device = rank % devices;
  MUST(cudaSetDevice(device));
  MUST(cudaFree(nullptr));
  std::vector<Window> windows(count);
  share(is_vmm, rank, device, windows);
  Window* table = on_device(windows);
  float* out;
  const Window mine = windows[rank], next = windows[(rank + 1) % count];
  const size_t bytes = side * side * sizeof(float);
  MUST(cudaMalloc(&out, bytes));
  for (int number = 0; number < 3 * rounds; ++number) {
    const int kernel = number / rounds, round = number + 1;
    MUST(cudaMemcpy(mine.base, numbers<float>(side * side, 100 * round + rank).data(), bytes,
                    cudaMemcpyHostToDevice));
    MUST(cudaMemset(out, 0, bytes));
    MUST(cudaDeviceSynchronize());
    meet(rank, ++step);
    if (kernel == 0) all_reduce<<<(n + 255) / 256, 256>>>(table, out, rank, count, n, round);
    if (kernel == 1) ring_step<<<(n + 255) / 256, 256>>>(mine, next, out, n, round);
    if (kernel == 2)
      matmul_put<<<dim3(side / tile, side / tile), dim3(tile, tile)>>>(mine, next, out, side, round);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    meet(rank, ++step);
    std::vector<float> host(side * side);
    MUST(cudaMemcpy(host.data(), out, bytes, cudaMemcpyDeviceToHost));
    shared->ranks[rank].sums[number] = checksum(host.data(), bytes);
  }
  meet(rank, ++step);
  return 0;
}

int main(int argc, char** argv) {
  count = argc > 1 ? std::atoi(argv[1]) : 2;
  const bool is_vmm = argc < 3 || std::strcmp(argv[2], "vmm") == 0;
  if (count < 2 || count > most) return 2;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  shared = static_cast<Shared*>(memory);
  for (auto& from : sockets)
    for (auto& pair : from)
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 2;
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) return run(rank, is_vmm);
  }
  int failed = 0;
  for (int rank = 0; rank < count; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    failed |= status;
    std::printf("rank %d:", rank);
    for (unsigned long long sum : shared->ranks[rank].sums) std::printf(" %016llx", sum);
    std::printf("\n");
  }
  return failed != 0;
}
