// A driver-API program (linked with -lcuda, so bound by the ELF loader): PTX from memory, one launch with
// kernelParams and one with an `extra` buffer.
#include <cuda.h>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const char* const PTX = R"(
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 calls;
.visible .entry kc_ptx(.param .u64 data, .param .u32 n, .param .u32 step)
{
  .reg .pred %p;
  .reg .b32 %r<10>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [n];
  ld.param.u32 %r2, [step];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r1;
  @%p bra DONE;
  mul.wide.u32 %rd2, %r6, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  mad.lo.u32 %r7, %r7, %r2, %r6;
  st.global.u32 [%rd3], %r7;
  setp.ne.u32 %p, %r6, 0;
  @%p bra DONE;
  ld.global.u32 %r8, [calls];
  add.u32 %r8, %r8, 1;
  st.global.u32 [calls], %r8;
DONE:
  ret;
}
)";

static void must(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(status));
  std::exit(3);
}
#define MUST(call) must((call), #call)

int main() {
  const uint32_t n = 5000;
  MUST(cuInit(0));
  CUdevice device;
  MUST(cuDeviceGet(&device, 0));
  CUcontext context;
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  CUmodule module;
  MUST(cuModuleLoadData(&module, PTX));
  CUfunction function;
  MUST(cuModuleGetFunction(&function, module, "kc_ptx"));
  CUdeviceptr data;
  MUST(cuMemAlloc(&data, n * 4));
  std::vector<uint32_t> host(n);
  for (uint32_t i = 0; i < n; ++i) host[i] = i * 17;
  MUST(cuMemcpyHtoD(data, host.data(), n * 4));

  uint32_t count = n, step = 3;
  void* parameters[] = {&data, &count, &step};
  MUST(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));

  struct {
    CUdeviceptr data;
    uint32_t n, step;
  } buffer = {data, n, 5};
  size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  MUST(cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra));
  MUST(cuCtxSynchronize());

  MUST(cuMemcpyDtoH(host.data(), data, n * 4));
  uint64_t sum = 0;
  for (uint32_t v : host) sum = sum * 31 + v;
  CUdeviceptr calls;
  size_t bytes;
  uint32_t counted = 0;
  MUST(cuModuleGetGlobal(&calls, &bytes, module, "calls"));
  MUST(cuMemcpyDtoH(&counted, calls, 4));
  std::printf("ptx %016" PRIx64 " calls %u\n", sum, counted);
}
