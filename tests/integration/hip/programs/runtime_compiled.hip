// hipRTC, twice: two modules with one kernel name, each with a variable of one name.
#include "common.h"

#include <hip/hiprtc.h>

#include <string>

static std::vector<char> compile(const char* source) {
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, source, "square.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS)
    std::exit(1);
  if (hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS) {
    size_t size = 0;
    hiprtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    hiprtcGetProgramLog(program, &log[0]);
    std::fprintf(stderr, "%s\n", log.c_str());
    std::exit(1);
  }
  size_t size = 0;
  hiprtcGetCodeSize(program, &size);
  std::vector<char> code(size);
  hiprtcGetCode(program, code.data());
  hiprtcDestroyProgram(&program);
  return code;
}

static void run(const char* name, const char* source, const char* kernel) {
  const std::vector<char> code = compile(source);
  hipModule_t module;
  hipFunction_t function;
  CHECK(hipModuleLoadData(&module, code.data()));
  CHECK(hipModuleGetFunction(&function, module, kernel));
  const int n = 64;
  float* x = to_device(ramp(n, 0.5f));
  void* arguments[] = {&x};
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, n, 1, 1, 0, nullptr, arguments, nullptr));
  report(name, x, n * sizeof(float));
}

int main() {
  run("first_module",
      "__device__ float gain = 2.0f;\n"
      "extern \"C\" __global__ void square(float *x) {\n"
      "    x[threadIdx.x] *= x[threadIdx.x] * gain;\n"
      "}\n",
      "square");
  run("second_module",
      "__device__ float gain = 5.0f;\n"
      "extern \"C\" __global__ void square(float *x) {\n"
      "    x[threadIdx.x] += gain;\n"
      "}\n",
      "square");
  return 0;
}
