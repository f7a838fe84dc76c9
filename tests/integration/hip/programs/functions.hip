// Calls through memory, of kernels that hipcc compiled, or of those of a code object whose path is the argument.
#include "functions_kernels.h"

#include "common.h"

static hipModule_t module = nullptr;

template <class Kernel, class... Arguments>
static void launch(const char* name, Kernel* kernel, Arguments... passed) {
  void* arguments[] = {&passed...};
  if (module == nullptr) {
    CHECK(hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(64), arguments, 0, nullptr));
    return;
  }
  hipFunction_t function;
  CHECK(hipModuleGetFunction(&function, module, name));
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
}

int main(int count, char** words) {
  if (count > 1) CHECK(hipModuleLoad(&module, words[1]));
  constexpr int n = 64;
  std::vector<int> which(n);
  for (int i = 0; i < n; i++) which[i] = i % 3 == 0;
  float* x = to_device(ramp(n, 0.5f));
  auto* ops = zeros<Op>(n);
  auto* shapes = zeros<Shape*>(n);
  auto* room = zeros<char>(16 * n);
  auto* walkers = zeros<Walker>(n);
  launch("by_table", by_table, to_device(which), x);
  launch("make", make, ops, shapes, room, walkers);
  launch("by_memory", by_memory, ops, x);
  std::vector<Op> here(n);
  CHECK(hipMemcpy(here.data(), ops, n * sizeof(Op), hipMemcpyDeviceToHost));
  launch("by_argument", by_argument, here[1], x);
  launch("areas", areas, shapes, x);
  launch("walk", walk, walkers);
  report("all", x, n * sizeof(float));
  return 0;
}
