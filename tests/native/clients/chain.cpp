// Three launches of which each takes what the one before left, and one that is not like them. Between the
// second and the third the host changes what the third reads, unless an argument says not to. "variables"
// adds two of a module whose variables they read and write.
#include "client.h"

int main(int argc, char** argv) {
  constexpr unsigned n = 1000;
  constexpr float factor = 3.0f;
  start();
  CUfunction add = load(PTX_HEAD PTX_VECTOR_ADD, VECTOR_ADD);
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr a = upload(ramp(n)), b = upload(ramp(n, 0.5f));
  CUdeviceptr sum = allocate(n * sizeof(float)), out = allocate(n * sizeof(float));
  unsigned count = n;
  float by = factor;
  launch(add, 4, 256, {&a, &b, &out, &count});
  launch(add, 4, 256, {&a, &b, &sum, &count});
  launch(scale, 4, 256, {&sum, &by, &count});
  if (argc < 2) {
    std::vector<float> other = ramp(n, 0.25f);
    CHECK(cuMemcpyHtoD(b, other.data(), n * sizeof(float)));
  }
  launch(add, 4, 256, {&sum, &b, &out, &count});
  if (argc > 1 && std::strcmp(argv[1], "variables") == 0) {
    CUfunction by_constant = load(PTX_HEAD PTX_SCALE_BY_CONSTANT, SCALE_BY_CONSTANT);
    launch(by_constant, 4, 256, {&sum, &count});
    launch(by_constant, 4, 256, {&sum, &count});
    launch(add, 4, 256, {&sum, &b, &out, &count});
  }
  CHECK(cuCtxSynchronize());
  report("out", download<float>(out, n));
  return 0;
}
