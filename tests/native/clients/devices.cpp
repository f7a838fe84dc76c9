// A kernel on each of two devices; a created context besides the primary ones. "waits": the kernel on the
// first device waits for the one on the second, which the same thread launches after it. "cooperative": one
// launch of both devices.
#include <string>

#include "client.h"

namespace {

int wait_for_the_second() {
  CUcontext first = start(0), second = start(1);
  CUdeviceptr flag = upload(std::vector<int>{0, 0});
  CUfunction increment = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
  CHECK(cuCtxSetCurrent(first));
  CUdeviceptr out = allocate(4), x = upload(std::vector<int>{1});
  launch(load(PTX_HEAD PTX_WAIT_IN_LOOP, WAIT_FOR_FLAG), 1, 1, {&flag, &out});
  CHECK(cuCtxSetCurrent(second));
  launch(increment, 1, 1, {&flag});
  CHECK(cuCtxSynchronize());
  CHECK(cuCtxSetCurrent(first));
  CHECK(cuCtxSynchronize());
  report("out", download<int>(out, 1));
  // Afterwards one that can be captured.
  launch(load(PTX_HEAD PTX_INCREMENT, INCREMENT), 1, 1, {&x});
  report("x", download<int>(x, 1));
  return 0;
}

// The call is deprecated, and programs have it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int launch_on_both() {
  int item = 5;
  CUDA_LAUNCH_PARAMS list[2] = {};
  CUdeviceptr x[2];
  void* parameters[2];
  for (int i = 0; i < 2; ++i) {
    start(i);
    x[i] = upload(std::vector<int>{item});
    parameters[i] = &x[i];
    list[i].function = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
    CHECK(cuStreamCreate(&list[i].hStream, CU_STREAM_NON_BLOCKING));
    list[i].gridDimX = list[i].gridDimY = list[i].gridDimZ = 1;
    list[i].blockDimX = list[i].blockDimY = list[i].blockDimZ = 1;
    list[i].kernelParams = &parameters[i];
  }
  CHECK(cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
  for (int i = 0; i < 2; ++i) {
    CHECK(cuStreamSynchronize(list[i].hStream));
    report(i == 0 ? "first" : "second", download<int>(x[i], 1));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "cooperative") return launch_on_both();
  if (argc > 1 && std::string(argv[1]) == "waits") return wait_for_the_second();
  constexpr int n = 256;
  CUcontext first = start(0), second = start(1), created;
  CUdevice device;
  CHECK(cuDeviceGet(&device, 1));
  int count = n;
  float s = 3;
  for (CUcontext context : {first, second}) {
    CHECK(cuCtxSetCurrent(context));
    CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
    CUdeviceptr x = upload(ramp(n, context == first ? 1.0f : 2.0f));
    launch(scale, 1, 256, {&x, &s, &count});
    CHECK(cuCtxSynchronize());
    report(context == first ? "first" : "second", download<float>(x, n));
  }
  CHECK(cuCtxCreate(&created, nullptr, 0, device));
  CUfunction add = load(PTX_HEAD PTX_VECTOR_ADD, VECTOR_ADD);
  CUdeviceptr a = upload(ramp(n)), out = allocate(n * sizeof(float));
  launch(add, 1, 256, {&a, &a, &out, &count});
  CHECK(cuCtxSynchronize());
  report("created", download<float>(out, n));
  CHECK(cuCtxDestroy(created));
  return 0;
}
