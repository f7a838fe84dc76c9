// A vector addition whose memory comes from each of the driver's allocators.
#include <sys/mman.h>

#include <string>

#include "client.h"

namespace {

constexpr int n = 3000;
constexpr size_t bytes = n * sizeof(float);

void add(CUdeviceptr a, CUdeviceptr b, CUdeviceptr out, CUstream stream = nullptr) {
  int count = n;
  launch(load(PTX_HEAD PTX_VECTOR_ADD, VECTOR_ADD), 12, 256, {&a, &b, &out, &count}, stream);
}

void finish(CUdeviceptr out) {
  CHECK(cuCtxSynchronize());
  report("out", download<float>(out, n));
}

void fill(CUdeviceptr address, float step) {
  CHECK(cuMemcpyHtoD(address, ramp(n, step).data(), bytes));
}

void managed() {
  CUdeviceptr a, b, out;
  for (CUdeviceptr* p : {&a, &b, &out}) CHECK(cuMemAllocManaged(p, bytes, CU_MEM_ATTACH_GLOBAL));
  std::memcpy(reinterpret_cast<void*>(a), ramp(n).data(), bytes);  // the host's own hand
  fill(b, 2);
  add(a, b, out);
  CHECK(cuCtxSynchronize());
  report("out", std::vector<float>(reinterpret_cast<float*>(out), reinterpret_cast<float*>(out) + n));
}

void pinned() {
  void *a, *b;
  CHECK(cuMemAllocHost(&a, bytes));
  CHECK(cuMemHostAlloc(&b, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
  std::memcpy(a, ramp(n).data(), bytes);
  std::memcpy(b, ramp(n, 3).data(), bytes);
  CUdeviceptr device_a, device_b, out = allocate(bytes);
  CHECK(cuMemHostGetDevicePointer(&device_a, a, 0));
  CHECK(cuMemHostGetDevicePointer(&device_b, b, 0));
  add(device_a, device_b, out);
  finish(out);
  CHECK(cuMemFreeHost(a));
  CHECK(cuMemFreeHost(b));
}

void registered() {
  auto* memory = static_cast<float*>(
      mmap(nullptr, 3 * 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(cuMemHostRegister(memory, 3 * 16384, CU_MEMHOSTREGISTER_DEVICEMAP));
  std::memcpy(memory, ramp(n).data(), bytes);
  std::memcpy(memory + 4096, ramp(n, 4).data(), bytes);
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  add(address, address + 16384, address + 32768);
  CHECK(cuCtxSynchronize());
  report("out", std::vector<float>(memory + 8192, memory + 8192 + n));
  CHECK(cuMemHostUnregister(memory));
}

// Stream-ordered: the freed block comes back to the same stream before anything has run.
void pool() {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a, b, out;
  std::vector<float> host_a = ramp(n), host_b = ramp(n, 5);
  for (int round = 0; round < 3; ++round) {
    for (CUdeviceptr* p : {&a, &b, &out}) CHECK(cuMemAllocAsync(p, bytes, stream));
    CHECK(cuMemcpyHtoDAsync(a, host_a.data(), bytes, stream));
    CHECK(cuMemcpyHtoDAsync(b, host_b.data(), bytes, stream));
    add(a, b, out, stream);
    if (round == 2) break;
    for (CUdeviceptr p : {a, b, out}) CHECK(cuMemFreeAsync(p, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  finish(out);
}

// An expandable segment: a long reservation, mapped piece by piece, some of it taken away again.
void segments() {
  constexpr size_t piece = 2u << 20;
  CUdeviceptr base;
  CHECK(cuMemAddressReserve(&base, 64 * piece, 0, 0, 0));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (size_t i = 0; i < 6; ++i) {
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, piece, &properties, 0));
    CHECK(cuMemMap(base + i * piece, piece, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemSetAccess(base + i * piece, piece, &access, 1));
  }
  CHECK(cuMemUnmap(base + 4 * piece, 2 * piece));
  // `a` lies across two mappings.
  CUdeviceptr a = base + piece - 400, b = base + 2 * piece, out = base + 3 * piece + 512;
  fill(a, 1);
  fill(b, 6);
  add(a, b, out);
  finish(out);
}

void pitched() {
  CUdeviceptr a, out = allocate(bytes);
  size_t pitch;
  CHECK(cuMemAllocPitch(&a, &pitch, 500, 64, 4));
  fill(a, 7);
  add(a, a, out);
  finish(out);
}

// Two live arguments inside one allocation, and one address with two lives.
void reused() {
  CUdeviceptr first = allocate(4 << 20);
  CHECK(cuMemFree(first));
  CUdeviceptr all = allocate(4 << 20);
  fill(all, 1);
  fill(all + 65536, 2);
  add(all, all + 65536, all + (2 << 20));
  finish(all + (2 << 20));
}

// One allocation that a framework divides by itself: almost all of it is zero.
void arena() {
  constexpr size_t MiB = 1u << 20;
  CUdeviceptr all = allocate(200 * MiB), a = all + 190 * MiB, b = all + 192 * MiB, out = all + 196 * MiB;
  CHECK(cuMemsetD8(all, 0, 200 * MiB));
  fill(all, 3);
  fill(a, 1);
  fill(b, 2);
  add(a, b, out);
  finish(out);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  start();
  if (what == "managed")
    managed();
  else if (what == "pinned")
    pinned();
  else if (what == "registered")
    registered();
  else if (what == "pool")
    pool();
  else if (what == "segments")
    segments();
  else if (what == "pitched")
    pitched();
  else if (what == "reused")
    reused();
  else if (what == "arena")
    arena();
  else
    return 64;
  return 0;
}
