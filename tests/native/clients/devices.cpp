// A kernel on each of two devices; a created context besides the primary ones.
#include "client.h"

int main() {
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
