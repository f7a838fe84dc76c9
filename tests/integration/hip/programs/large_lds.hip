// Numbers reversed through dynamic LDS by one workgroup: large_lds CODE-OBJECT BYTES.
#include "common.h"

int main(int, char** words) {
  const unsigned bytes = static_cast<unsigned>(std::atoi(words[2]));
  std::vector<int> numbers(bytes / sizeof(int));
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int>(i);
  int* x = to_device(numbers);
  int count = static_cast<int>(numbers.size());
  hipModule_t module;
  hipFunction_t function;
  CHECK(hipModuleLoad(&module, words[1]));
  CHECK(hipModuleGetFunction(&function, module, "reverse"));
  void* arguments[] = {&x, &count};
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, 1024, 1, 1, bytes, nullptr, arguments, nullptr));
  report("reverse", x, bytes);
  return 0;
}
