// Pairs of launches on two streams, and between them what may order the streams: one pair for each way.
#include "client.h"

namespace {

void CUDA_CB nothing(void*) {}

CUstream stream_with(unsigned flags) {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, flags));
  return stream;
}

CUevent event() {
  CUevent made;
  CHECK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
  return made;
}

}  // namespace

int main() {
  constexpr unsigned n = 256;
  CUcontext context = start();
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr values = upload(ramp(n)), other = allocate(n * sizeof(float));
  CUdeviceptr word = upload(std::vector<uint32_t>{0});
  std::vector<float> host(n);
  CUstream a = stream_with(CU_STREAM_NON_BLOCKING), b = stream_with(CU_STREAM_NON_BLOCKING);
  CUstream c = stream_with(CU_STREAM_DEFAULT), d = stream_with(CU_STREAM_DEFAULT);
  CUevent first = event(), second = event(), last = event();
  float by = 1.5f;
  unsigned count = n;
  auto run = [&](CUstream stream) { launch(scale, 1, n, {&values, &by, &count}, stream); };

  run(a);  // 0, 1: nothing
  run(b);
  run(a);  // 2, 3: an event
  CHECK(cuEventRecord(first, a));
  CHECK(cuStreamWaitEvent(b, first, 0));
  run(b);
  CHECK(cuEventRecord(last, a));
  run(a);  // 4, 5: an event that was recorded before
  CHECK(cuStreamWaitEvent(b, last, 0));
  run(b);
  run(a);  // 6, 7: the host, for the stream
  CHECK(cuStreamSynchronize(a));
  run(b);
  run(a);  // 8, 9: the host, for an event
  CHECK(cuEventRecord(first, a));
  CHECK(cuEventSynchronize(first));
  run(b);
  run(a);  // 10, 11: the host, for everything
  CHECK(cuCtxSynchronize());
  run(b);
  run(c);  // 12, 13: the default stream
  CHECK(cuMemsetD32(other, 0, n));
  run(d);
  run(a);  // 14, 15: the default stream, for which these two do not wait
  CHECK(cuMemsetD32(other, 0, n));
  run(b);
  run(c);  // 16, 17: a copy to the host
  CHECK(cuMemcpyDtoH(host.data(), other, n * sizeof(float)));
  run(b);
  run(a);  // 18, 19: an event that is another one by now
  CHECK(cuEventRecord(second, a));
  CHECK(cuEventDestroy(second));
  second = event();
  CHECK(cuStreamWaitEvent(b, second, 0));
  run(b);
  run(a);  // 20, 21: what the program may do when a query says that all is done
  (void)cuStreamQuery(a);
  run(b);
  run(a);  // 22, 23: a function of the host, which might tell another thread
  CHECK(cuLaunchHostFunc(a, nothing, nullptr));
  run(b);
  run(a);  // 24, 25: values in memory
  CHECK(cuStreamWriteValue32(a, word, 1, 0));
  CHECK(cuStreamWaitValue32(b, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  run(b);
  run(nullptr);  // 26, 27: the default stream is one of the two
  run(c);
  run(a);  // 28, 29: one stream after another
  CHECK(cuEventRecord(first, a));
  CHECK(cuStreamWaitEvent(c, first, 0));
  CHECK(cuEventRecord(second, c));
  CHECK(cuStreamWaitEvent(b, second, 0));
  run(b);
  (void)context;
  run(a);  // 30, 31: the host, for a context
#if CUDA_VERSION >= 13000
  CHECK(cuCtxSynchronize_v2(context));
#else
  CHECK(cuCtxSynchronize());
#endif
  run(b);
  CHECK(cuCtxSynchronize());
  report("values", download<float>(values, n));
  return 0;
}
