// The stand-in driver against what is known of the real one; prints a line for each thing that is not so.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <string>
#include <thread>

#include "client.h"
#include "rig.h"

namespace {

int wrong = 0;

#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) {                                           \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++wrong;                                                    \
    }                                                             \
  } while (0)

constexpr size_t kMiB = 1u << 20;
sigjmp_buf back;
void jump(int) {
  siglongjmp(back, 1);
}

bool host_can_read(CUdeviceptr address) {
  struct sigaction action = {}, before;
  action.sa_handler = jump;
  sigaction(SIGSEGV, &action, &before);
  volatile bool readable = false;
  if (sigsetjmp(back, 1) == 0) {
    (void)*reinterpret_cast<volatile char*>(address);
    readable = true;
  }
  sigaction(SIGSEGV, &before, nullptr);
  return readable;
}

void memory() {
  CUdeviceptr small = allocate(100), second = allocate(700), large = allocate(5 * kMiB), managed;
  EXPECT(small % 512 == 0 && second % 512 == 0 && small / (2 * kMiB) == second / (2 * kMiB));
  EXPECT(large % (2 * kMiB) == 0);
  EXPECT(!host_can_read(small) && !host_can_read(large));
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  EXPECT(host_can_read(managed));
  std::vector<uint64_t> found = download<uint64_t>(large, 1000);
  bool zeros = true;
  for (uint64_t value : found) zeros = zeros && value == 0;
  EXPECT(!zeros);
  char byte = 0;
  EXPECT(cuMemcpyDtoH(&byte, small + 100, 1) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base;
  size_t size;
  CHECK(cuMemGetAddressRange(&base, &size, large + 12345));
  EXPECT(base == large && size == 5 * kMiB);
  CHECK(cuMemFree(large));
  EXPECT(cuMemFree(large) == CUDA_ERROR_INVALID_VALUE);
  CUmemorytype type;
  EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, small));
  EXPECT(type == CU_MEMORYTYPE_DEVICE);
}

void hints() {
  CUdeviceptr place, again, moved;
  CHECK(cuMemAddressReserve(&place, 64 * kMiB, 0, 0, 0));
  CHECK(cuMemAddressFree(place, 64 * kMiB));
  CUdeviceptr aligned = (place + 32 * kMiB - 1) / (32 * kMiB) * (32 * kMiB);
  CHECK(cuMemAddressReserve(&again, 2 * kMiB, 0, aligned, 0));
  EXPECT(again == aligned);
  CHECK(cuMemAddressReserve(&moved, 2 * kMiB, 0, aligned, 0));
  EXPECT(moved != aligned && moved != 0);  // taken: elsewhere, with success
  CHECK(cuMemAddressFree(again, 2 * kMiB));
  CHECK(cuMemAddressFree(moved, 2 * kMiB));
  CHECK(cuMemAddressReserve(&moved, 2 * kMiB, 0, aligned + 2 * kMiB, 0));
  EXPECT(moved == aligned + 32 * kMiB);  // rounded up to the next 32 MiB, with success
  CHECK(cuMemAddressFree(moved, 2 * kMiB));
  EXPECT(cuMemAddressReserve(&moved, kMiB, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

void virtual_memory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr first, second;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemAddressReserve(&first, 4 * kMiB, 0, 0, 0));
  CHECK(cuMemAddressReserve(&second, 4 * kMiB, 0, 0, 0));
  CHECK(cuMemCreate(&handle, 2 * kMiB, &properties, 0));
  CHECK(cuMemMap(first, 2 * kMiB, 0, handle, 0));
  int value = 7, got = 0;
  EXPECT(cuMemcpyHtoD(first, &value, 4) == CUDA_ERROR_INVALID_VALUE);  // no access yet
  CHECK(cuMemSetAccess(first, 2 * kMiB, &access, 1));
  CHECK(cuMemcpyHtoD(first, &value, 4));
  CHECK(cuMemMap(second, 2 * kMiB, 0, handle, 0));
  CHECK(cuMemSetAccess(second, 2 * kMiB, &access, 1));
  CHECK(cuMemcpyDtoH(&got, second, 4));
  EXPECT(got == 7);  // one memory at two addresses
  CHECK(cuMemUnmap(first, 2 * kMiB));
  EXPECT(cuMemcpyDtoH(&got, first, 4) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAddressFree(second, 4 * kMiB) == CUDA_ERROR_INVALID_VALUE);  // still mapped
  CHECK(cuMemRelease(handle));
  CHECK(cuMemcpyDtoH(&got, second, 4));
  CHECK(cuMemUnmap(second, 2 * kMiB));
  CHECK(cuMemAddressFree(second, 4 * kMiB));
}

void pools() {
  CUstream first, second;
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  void* flag;
  CHECK(cuMemAllocHost(&flag, 8));
  *static_cast<int*>(flag) = 0;
  CUfunction wait = load(PTX_HEAD PTX_WAIT_FOR_FLAG, WAIT_FOR_FLAG);
  auto address = reinterpret_cast<CUdeviceptr>(flag);
  CUdeviceptr out = allocate(4), block, same, other;
  launch(wait, 1, 1, {&address, &out}, first);
  CHECK(cuMemAllocAsync(&block, 1000, first));
  CHECK(cuMemFreeAsync(block, first));
  CHECK(cuMemAllocAsync(&other, 1000, second));
  EXPECT(other != block);  // the free has not run yet
  CHECK(cuMemAllocAsync(&same, 1000, first));
  EXPECT(same == block);  // the same stream gets it back at once
  EXPECT(cuStreamQuery(first) == CUDA_ERROR_NOT_READY && cuStreamQuery(second) == CUDA_SUCCESS);
  __atomic_store_n(static_cast<int*>(flag), 1, __ATOMIC_RELEASE);
  CHECK(cuStreamSynchronize(first));
  int value = 3;
  CHECK(cuMemcpyHtoD(same, &value, 4));  // its new life was not ended by the old free
  CHECK(cuMemFreeHost(flag));
}

// The legacy stream waits for blocking streams and they wait for it; non-blocking ones do neither.
void streams() {
  CUstream blocking, free_running;
  CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  CHECK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
  void* flag;
  CHECK(cuMemAllocHost(&flag, 8));
  *static_cast<int*>(flag) = 0;
  CUfunction wait = load(PTX_HEAD PTX_WAIT_FOR_FLAG, WAIT_FOR_FLAG);
  CUfunction increment = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
  auto address = reinterpret_cast<CUdeviceptr>(flag);
  CUdeviceptr out = allocate(4), x = upload(std::vector<int>{0});
  launch(wait, 1, 1, {&address, &out}, blocking);
  launch(increment, 1, 1, {&x}, nullptr);
  launch(increment, 1, 1, {&x}, free_running);
  CHECK(cuStreamSynchronize(free_running));
  EXPECT(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(event, blocking));
  CHECK(cuStreamWaitEvent(free_running, event, 0));
  EXPECT(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  EXPECT(cuStreamQuery(free_running) == CUDA_ERROR_NOT_READY);
  __atomic_store_n(static_cast<int*>(flag), 1, __ATOMIC_RELEASE);
  CHECK(cuCtxSynchronize());
  EXPECT(cuEventQuery(event) == CUDA_SUCCESS);
  EXPECT(download<int>(x, 1)[0] == 2);
  CUresult inside = CUDA_SUCCESS;
  CHECK(cuLaunchHostFunc(
      blocking, [](void* out) { *static_cast<CUresult*>(out) = cuCtxSynchronize(); }, &inside));
  CHECK(cuStreamSynchronize(blocking));
  EXPECT(inside == CUDA_ERROR_NOT_PERMITTED);
}

void captures() {
  CUstream stream, joined;
  CUgraph graph;
  CUstreamCaptureStatus status;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
  CUdeviceptr x = upload(std::vector<int>{0});
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuStreamIsCapturing(stream, &status));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  int value;
  EXPECT(cuMemcpyDtoH(&value, x, 4) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // A second stream joins by an event, and has to come back.
  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemsetD32Async(x, 5, 1, stream));
  CHECK(cuEventRecord(event, stream));
  CHECK(cuStreamWaitEvent(joined, event, 0));
  CHECK(cuMemsetD32Async(x, 6, 1, joined));
  EXPECT(cuEventQuery(event) != CUDA_SUCCESS);
  EXPECT(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuMemsetD32Async(x, 5, 1, stream));
  CHECK(cuMemcpyDtoH(&value, upload(std::vector<int>{9}), 4));  // relaxed: this thread may
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  EXPECT(value == 9 && download<int>(x, 1)[0] == 0);  // nothing of it has run
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(download<int>(x, 1)[0] == 5);
}

void handles() {
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  const char* name;
  size_t offset, size;
  CHECK(cuLibraryLoadData(&library, PTX_HEAD PTX_ADD_BATCH PTX_VECTOR_ADD, nullptr, nullptr, 0, nullptr,
                          nullptr, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, VECTOR_ADD));
  EXPECT(cuFuncGetName(&name, reinterpret_cast<CUfunction>(kernel)) == CUDA_ERROR_INVALID_HANDLE);
  EXPECT(cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), 0, &offset, &size) ==
         CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuKernelGetName(&name, kernel));
  CHECK(cuKernelGetParamInfo(kernel, 3, &offset, &size));
  EXPECT(std::string(name) == VECTOR_ADD && offset == 24 && size == 4);
  EXPECT(cuKernelGetParamInfo(kernel, 4, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuKernelGetFunction(&function, kernel));
  CHECK(cuFuncGetName(&name, function));
  CHECK(cuLibraryGetKernel(&kernel, library, ADD_BATCH));
  CHECK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
  EXPECT(offset == 0 && size == 32);
  CUmodule module;
  EXPECT(cuModuleLoadData(&module, "no image at all") != CUDA_SUCCESS);
  void* found;
  CUdriverProcAddressQueryResult status;
  EXPECT(cuGetProcAddress("cuNoSuchThing", &found, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND && !found);
  void* unknown = nullptr;
  CHECK(cuModuleLoadData(&module, PTX_HEAD PTX_ENTRY("nobody", "")));
  CHECK(cuModuleGetFunction(&function, module, "nobody"));
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, &unknown, nullptr) == CUDA_ERROR_NOT_FOUND);
}

// The last check: the context is lost afterwards.
void sticky() {
  CUfunction strike = load(PTX_HEAD PTX_STRIKE, STRIKE);
  CUdeviceptr bad = 0x10, out = allocate(64);
  int n = 4;
  launch(strike, 1, 32, {&bad, &out, &n});
  EXPECT(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more;
  EXPECT(cuMemAlloc(&more, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(cuStreamQuery(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext context;
  EXPECT(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context);
  CHECK(cuDevicePrimaryCtxReset(0));
  EXPECT(cuMemAlloc(&more, 16) == CUDA_SUCCESS);
}

}  // namespace

int main() {
  CUdeviceptr early;
  EXPECT(cuMemAlloc(&early, 16) == CUDA_ERROR_NOT_INITIALIZED);
  start();
  memory();
  hints();
  virtual_memory();
  pools();
  streams();
  captures();
  handles();
  sticky();
  return wrong ? 1 : 0;
}
