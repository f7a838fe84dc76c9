// A launch that can reach many GiB, and what its snapshot is measured against.
//   large touch GIB             the target: GIB in four allocations, a kernel that reads a little of each
//   large baselines FOLDER GIB WRITERS
//                               in the same folder: pinned copies from the device, WRITERS threads that write
//                               from pinned memory into a file each (the sink), and the naive way: copies
//                               into pageable memory, written by one thread
#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static void must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(3);
}
#define CUDA(call) must((call) == cudaSuccess, #call)

constexpr size_t PIECE = size_t(4) << 20;
constexpr size_t RING = 16;

struct Parts {
  uint64_t* part[4];
};

// Incompressible, and no word is zero.
__global__ void kc_fill(uint64_t* x, size_t n, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    uint64_t v = (i + seed) * 0x9E3779B97F4A7C15ull;
    v = (v ^ (v >> 31)) * 0xBF58476D1CE4E5B9ull;
    x[i] = (v ^ (v >> 29)) | 1;
  }
}

__global__ void kc_touch(Parts parts) {
  for (int k = 1; k < 4; ++k) parts.part[0][threadIdx.x] += parts.part[k][threadIdx.x];
}

using Clock = std::chrono::steady_clock;
static double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

static Parts allocate(size_t bytes) {
  Parts parts;
  for (int k = 0; k < 4; ++k) {
    CUDA(cudaMalloc(&parts.part[k], bytes / 4));
    kc_fill<<<1024, 256>>>(parts.part[k], bytes / 32, uint64_t(k) << 40);
  }
  CUDA(cudaDeviceSynchronize());
  return parts;
}

static void put(int file, const char* from, size_t size, size_t offset) {
  while (size) {
    ssize_t written = pwrite(file, from, size, off_t(offset));
    must(written > 0, "pwrite");
    from += written;
    offset += size_t(written);
    size -= size_t(written);
  }
}

static int fresh(const std::string& path) {
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  must(file >= 0, path.c_str());
  return file;
}

static double pinned_rate(const Parts& parts, size_t bytes, char* ring) {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  auto start = Clock::now();
  for (size_t at = 0; at < bytes; at += PIECE) {
    const char* from = reinterpret_cast<const char*>(parts.part[at / (bytes / 4)]) + at % (bytes / 4);
    CUDA(cudaMemcpyAsync(ring + at / PIECE % RING * PIECE, from, PIECE, cudaMemcpyDeviceToHost, stream));
  }
  CUDA(cudaStreamSynchronize(stream));
  return double(bytes) / since(start);
}

static double sink_rate(const std::string& folder, size_t bytes, size_t writers, const char* ring) {
  std::vector<int> files;
  for (size_t w = 0; w < writers; ++w) files.push_back(fresh(folder + "/sink." + std::to_string(w)));
  auto start = Clock::now();
  std::vector<std::thread> threads;
  for (size_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      size_t local = 0;
      for (size_t piece = w; piece < bytes / PIECE; piece += writers) {
        put(files[w], ring + piece % RING * PIECE, PIECE, local);
        local += PIECE;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  double rate = double(bytes) / since(start);
  for (size_t w = 0; w < writers; ++w) {
    close(files[w]);
    unlink((folder + "/sink." + std::to_string(w)).c_str());
  }
  return rate;
}

static double naive_rate(const std::string& folder, const Parts& parts, size_t bytes) {
  std::vector<char> host(PIECE);
  int file = fresh(folder + "/naive");
  auto start = Clock::now();
  for (size_t at = 0; at < bytes; at += PIECE) {
    const char* from = reinterpret_cast<const char*>(parts.part[0]) + at;
    CUDA(cudaMemcpy(host.data(), from, PIECE, cudaMemcpyDeviceToHost));
    put(file, host.data(), PIECE, at);
  }
  double rate = double(bytes) / since(start);
  close(file);
  unlink((folder + "/naive").c_str());
  return rate;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (std::string(argv[1]) == "touch") {
    Parts parts = allocate(std::strtoull(argv[2], nullptr, 10) << 30);
    for (int k = 0; k < 3; ++k) kc_touch<<<1, 64>>>(parts);
    CUDA(cudaDeviceSynchronize());
    std::printf("touched\n");
    return 0;
  }
  if (argc < 5) return 2;
  const std::string folder = argv[2];
  const size_t bytes = std::strtoull(argv[3], nullptr, 10) << 30,
               writers = std::strtoull(argv[4], nullptr, 10);
  Parts parts = allocate(bytes);
  char* ring;
  CUDA(cudaMallocHost(&ring, RING * PIECE));
  std::memset(ring, 0x5a, RING * PIECE);
  double pinned = pinned_rate(parts, bytes, ring);
  double sink = 0;
  for (int round = 0; round < 2; ++round) {
    double rate = sink_rate(folder, bytes, writers, ring);
    if (rate > sink) sink = rate;
  }
  double naive = naive_rate(folder, parts, bytes / 8);
  std::printf("{\"pinned\": %.0f, \"sink\": %.0f, \"naive\": %.0f}\n", pinned, sink, naive);
}
