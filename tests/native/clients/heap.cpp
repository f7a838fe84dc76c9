// heap [how]: a kernel puts a pointer to memory of the kernels' heap into a list; one of another module,
// which calls no malloc, reads through it.
//
// limit: the heap's size is set before and after. other: the second kernel reads through a pointer to memory
// of the program's.
#include <string>

#include "client.h"

int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "";
  start();
  int n = 64;
  if (how == "limit") std::printf("limit %d\n", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  CUdeviceptr list = allocate(sizeof(CUdeviceptr)), out = allocate(n * sizeof(int));
  CUfunction make = load(PTX_HEAD PTX_MAKE_LIST, MAKE_LIST), use = load(PTX_HEAD PTX_USE_LIST, USE_LIST);
  launch(make, 1, 32, {&list, &n});
  if (how == "other") {
    CUdeviceptr own = upload(std::vector<int>(n, 5));
    CHECK(cuMemcpyHtoD(list, &own, sizeof own));
  }
  launch(use, 1, 32, {&list, &out, &n});
  report("out", download<int>(out, n));
  if (how == "limit") std::printf("limit %d\n", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
}
