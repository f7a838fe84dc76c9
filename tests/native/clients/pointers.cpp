// What a launch reaches through pointers that lie in memory, and module variables.
#include <string>

#include "client.h"

namespace {

void rows() {
  CUfunction sum = load(PTX_HEAD PTX_SUM_OF_ROWS, SUM_OF_ROWS);
  std::vector<CUdeviceptr> table;
  for (int r = 0; r < 5; ++r) table.push_back(upload(ramp(300, static_cast<float>(r + 1))));
  CUdeviceptr unrelated = upload(ramp(1 << 20));  // never pointed to: not to be captured
  CUdeviceptr device_table = upload(table), out = allocate(5 * sizeof(float));
  int r = 5, c = 300;
  launch(sum, 1, 32, {&device_table, &out, &r, &c});
  report("out", download<float>(out, 5));
  CHECK(cuMemFree(unrelated));
}

struct Node {
  float value;
  int pad;
  CUdeviceptr next;
};

void list() {
  CUfunction sum = load(PTX_HEAD PTX_SUM_OF_LIST, SUM_OF_LIST);
  CUdeviceptr next = 0;
  for (int i = 0; i < 6; ++i) next = upload(std::vector<Node>{{static_cast<float>(i) + 0.5f, 0, next}});
  CUdeviceptr out = allocate(sizeof(float));
  launch(sum, 1, 1, {&next, &out});
  report("out", download<float>(out, 1));
}

void structs() {
  CUfunction add = load(PTX_HEAD PTX_ADD_BATCH, ADD_BATCH);
  struct {
    CUdeviceptr a, b, out;
    int n, pad;
  } batch = {upload(ramp(500)), upload(ramp(500, 3)), allocate(500 * sizeof(float)), 500, 0};
  launch(add, 2, 256, {&batch});
  report("out", download<float>(batch.out, 500));
}

void globals() {
  CUmodule module;
  CUfunction scale = load(PTX_HEAD PTX_SCALE_BY_CONSTANT, SCALE_BY_CONSTANT, &module);
  CUdeviceptr x = upload(ramp(100)), calls;
  size_t bytes;
  int n = 100;
  for (int i = 0; i < 2; ++i) launch(scale, 1, 128, {&x, &n});
  CHECK(cuModuleGetGlobal(&calls, &bytes, module, "calls"));
  report("x", download<float>(x, 100));
  report("calls", download<int>(calls, 1));
}

// A variable that holds a pointer.
void through_global() {
  CUmodule module;
  CUfunction through = load(PTX_HEAD PTX_THROUGH_GLOBAL, THROUGH_GLOBAL, &module);
  CUdeviceptr in = upload(ramp(200)), out = allocate(200 * sizeof(float)), table;
  size_t bytes;
  int n = 200;
  CHECK(cuModuleGetGlobal(&table, &bytes, module, "table"));
  CHECK(cuMemcpyHtoD(table, &in, sizeof in));
  launch(through, 1, 256, {&out, &n});
  report("out", download<float>(out, 200));
}

// Two modules with variables of one name.
void two_modules() {
  CUmodule first, second;
  CUfunction tick = load(PTX_HEAD PTX_TICK("100", "1"), TICK, &first);
  CUfunction other = load(PTX_HEAD PTX_TICK("200", "10"), TICK, &second);
  CUdeviceptr a, b;
  size_t bytes;
  CHECK(cuModuleGetGlobal(&a, &bytes, first, "total"));
  CHECK(cuModuleGetGlobal(&b, &bytes, second, "total"));
  launch(tick, 1, 1, {});
  launch(other, 1, 1, {});
  launch(other, 1, 1, {});
  report("first", download<int>(a, 1));
  report("second", download<int>(b, 1));
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  start();
  if (what == "rows")
    rows();
  else if (what == "list")
    list();
  else if (what == "structs")
    structs();
  else if (what == "globals")
    globals();
  else if (what == "through_global")
    through_global();
  else if (what == "two_modules")
    two_modules();
  else
    return 64;
  return 0;
}
