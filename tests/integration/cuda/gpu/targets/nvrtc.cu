// A program that compiles its kernel at run time (linked with -lnvrtc and -lcuda), with a header of its own
// and an option. The prototypes are NVRTC's public ones; nvrtc.h is not in every toolkit.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
struct _nvrtcProgram;
int nvrtcCreateProgram(_nvrtcProgram** program, const char* source, const char* name, int header_count,
                       const char* const* headers, const char* const* include_names);
int nvrtcCompileProgram(_nvrtcProgram* program, int option_count, const char* const* options);
int nvrtcGetCUBINSize(_nvrtcProgram* program, size_t* size);
int nvrtcGetCUBIN(_nvrtcProgram* program, char* cubin);
int nvrtcDestroyProgram(_nvrtcProgram** program);
}

static void must(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "%s: %d\n", what, status);
  std::exit(3);
}
#define MUST(call) must(static_cast<int>(call), #call)

int main() {
  const char* source =
      "#include \"weights.h\"\n"
      "extern \"C\" __global__ void kc_runtime(float* x, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) x[i] = x[i] * WEIGHT + OFFSET;\n"
      "}\n";
  const char* header = "#define WEIGHT 1.25f\n";
  const char* header_name = "weights.h";
  const char* options[] = {"--gpu-architecture=sm_90", "-DOFFSET=3.0f", "-lineinfo"};
  MUST(cuInit(0));
  CUcontext context;
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  _nvrtcProgram* program = nullptr;
  MUST(nvrtcCreateProgram(&program, source, "runtime.cu", 1, &header, &header_name));
  MUST(nvrtcCompileProgram(program, 3, options));
  size_t size = 0;
  MUST(nvrtcGetCUBINSize(program, &size));
  std::string cubin(size, '\0');
  MUST(nvrtcGetCUBIN(program, &cubin[0]));
  MUST(nvrtcDestroyProgram(&program));

  CUlibrary library;
  CUkernel kernel;
  MUST(cuLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  MUST(cuLibraryGetKernel(&kernel, library, "kc_runtime"));
  int n = 10000;
  CUdeviceptr x;
  MUST(cuMemAlloc(&x, n * sizeof(float)));
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = float(i % 128);
  MUST(cuMemcpyHtoD(x, host.data(), n * sizeof(float)));
  void* parameters[] = {&x, &n};
  CUlaunchConfig config = {};
  config.gridDimX = (n + 255) / 256;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  MUST(cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), parameters, nullptr));
  MUST(cuMemcpyDtoH(host.data(), x, n * sizeof(float)));
  double sum = 0;
  for (float v : host) sum += v;
  std::printf("runtime %.2f\n", sum);
}
