// The smallest case: out = a + b, through a module. Options: n, launches.
#include "client.h"

int main(int argc, char** argv) {
  unsigned n = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1000;
  int launches = argc > 2 ? std::atoi(argv[2]) : 1;
  start();
  CUfunction add = load(PTX_HEAD PTX_VECTOR_ADD, VECTOR_ADD);
  CUdeviceptr a = upload(ramp(n)), b = upload(ramp(n, 0.5f)), out = allocate(n * sizeof(float));
  for (int i = 0; i < launches; ++i) launch(add, (n + 255) / 256, 256, {&a, &b, &out, &n});
  CHECK(cuCtxSynchronize());
  report("out", download<float>(out, n));
  return 0;
}
