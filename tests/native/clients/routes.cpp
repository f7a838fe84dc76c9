// One vector addition by a named route: how the launch function is found, how the kernel is loaded,
// how the launch is made.
#include <dlfcn.h>

#include <string>

#include "client.h"

namespace {

constexpr int n = 700;
const char kImage[] = PTX_HEAD PTX_VECTOR_ADD PTX_SHAPE;

struct Arguments {
  CUdeviceptr a = upload(ramp(n)), b = upload(ramp(n, 0.25f)), out = allocate(n * sizeof(float));
  int count = n;
  void* pointers[4] = {&a, &b, &out, &count};
};

using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            CUstream, void**, void**);

Launch by_name(const std::string& route) {
  if (route == "dlsym")
    return reinterpret_cast<Launch>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"));
  if (route == "dlsym_default") return reinterpret_cast<Launch>(dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
  if (route == "dlsym_ptsz")
    return reinterpret_cast<Launch>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel_ptsz"));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status;
  if (route == "proc_address") CHECK(cuGetProcAddress("cuLaunchKernel", &found, 12000, 0, &status));
  if (route == "proc_address_ptsz")
    CHECK(cuGetProcAddress("cuLaunchKernel", &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                           &status));
  if (route == "proc_address_v1" || route == "proc_address_nested") {
    // The resolver found through dlsym, or through itself.
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (route == "proc_address_v1") {
      using Resolver = CUresult (*)(const char*, void**, int, cuuint64_t);
      auto resolve = reinterpret_cast<Resolver>(dlsym(library, "cuGetProcAddress"));
      CHECK(resolve("cuLaunchKernel", &found, 11030, 0));
    } else {
      using Resolver = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
      void* second = nullptr;
      auto first = reinterpret_cast<Resolver>(dlsym(library, "cuGetProcAddress_v2"));
      CHECK(first("cuGetProcAddress", &second, 12000, 0, &status));
      CHECK(reinterpret_cast<Resolver>(second)("cuLaunchKernel", &found, 13000, 0, &status));
    }
  }
  return reinterpret_cast<Launch>(found);
}

bool launch_by_function(const std::string& route) {
  Launch launch = by_name(route);
  if (!launch) return false;
  Arguments x;
  CHECK(launch(load(kImage, VECTOR_ADD), 3, 1, 1, 256, 1, 1, 0, nullptr, x.pointers, nullptr));
  CHECK(cuCtxSynchronize());
  report("out", download<float>(x.out, n));
  return true;
}

CUlibrary library() {
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

CUfunction by_loading(const std::string& route) {
  CUmodule module;
  CUfunction function;
  CUkernel kernel;
  if (route == "library_kernel") {  // as cudart does: a CUkernel where a CUfunction is asked for
    CHECK(cuLibraryGetKernel(&kernel, library(), VECTOR_ADD));
    return reinterpret_cast<CUfunction>(kernel);
  }
  if (route == "library_function") {
    CHECK(cuLibraryGetKernel(&kernel, library(), VECTOR_ADD));
    CHECK(cuKernelGetFunction(&function, kernel));
    return function;
  }
  if (route == "library_module") {
    CHECK(cuLibraryGetModule(&module, library()));
  } else if (route == "load_data_ex") {
    CHECK(cuModuleLoadDataEx(&module, kImage, 0, nullptr, nullptr));
  } else if (route == "link") {
    // The image is gone with the link state: what was loaded has to be kept by then.
    CUlinkState link;
    void* image;
    size_t bytes;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(kImage), sizeof kImage, "image", 0, nullptr,
                        nullptr));
    CHECK(cuLinkComplete(link, &image, &bytes));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuLinkDestroy(link));
  } else if (route == "freed_image") {
    std::string copy(kImage);
    CHECK(cuModuleLoadData(&module, copy.c_str()));
    std::memset(copy.data(), 'x', copy.size());
  } else {
    return nullptr;
  }
  CHECK(cuModuleGetFunction(&function, module, VECTOR_ADD));
  return function;
}

bool launch_loaded(const std::string& route) {
  CUfunction add = by_loading(route);
  if (!add) return false;
  Arguments x;
  launch(add, 3, 256, {&x.a, &x.b, &x.out, &x.count});
  report("out", download<float>(x.out, n));
  return true;
}

// An image in a file: what is in it decides the kernel's name (argv[2]) and its parameters are
// (a, b, out, n).
void launch_file(const char* path, const char* name, bool through_library) {
  CUfunction function;
  if (through_library) {
    CUlibrary loaded;
    CUkernel kernel;
    CHECK(cuLibraryLoadFromFile(&loaded, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cuLibraryGetKernel(&kernel, loaded, name));
    function = reinterpret_cast<CUfunction>(kernel);
  } else {
    CUmodule module;
    CHECK(cuModuleLoad(&module, path));
    CHECK(cuModuleGetFunction(&function, module, name));
  }
  Arguments x;
  launch(function, 3, 256, {&x.a, &x.b, &x.out, &x.count});
  report("out", download<float>(x.out, n));
}

void launch_extra() {
  Arguments x;
  struct {
    CUdeviceptr a, b, out;
    int n;
  } buffer = {x.a, x.b, x.out, n};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(load(kImage, VECTOR_ADD), 3, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  report("out", download<float>(x.out, n));
}

// Cluster, cooperative, priority: attributes have to reach the record and the replay.
void launch_ex(bool attributes) {
  CUdeviceptr out = allocate(11 * sizeof(unsigned));
  CUlaunchAttribute list[3] = {};
  list[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  list[0].value.clusterDim.x = 2;
  list[0].value.clusterDim.y = list[0].value.clusterDim.z = 1;
  list[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  list[1].value.cooperative = 1;
  list[2].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  list[2].value.priority = -1;
  CUlaunchConfig config = {};
  config.gridDimX = 4, config.gridDimY = 2, config.gridDimZ = 1;
  config.blockDimX = 32, config.blockDimY = 2, config.blockDimZ = 1;
  config.sharedMemBytes = 64;
  CHECK(cuStreamCreate(&config.hStream, CU_STREAM_NON_BLOCKING));
  config.attrs = attributes ? list : nullptr;
  config.numAttrs = attributes ? 3 : 0;
  void* parameters[] = {&out};
  CHECK(cuLaunchKernelEx(&config, load(kImage, SHAPE), parameters, nullptr));
  CHECK(cuStreamSynchronize(config.hStream));
  report("shape", download<unsigned>(out, 11));
}

void launch_cooperative() {
  CUdeviceptr out = allocate(11 * sizeof(unsigned));
  void* parameters[] = {&out};
  CHECK(cuLaunchCooperativeKernel(load(kImage, SHAPE), 2, 1, 1, 64, 1, 1, 0, nullptr, parameters));
  report("shape", download<unsigned>(out, 11));
}

}  // namespace

int main(int argc, char** argv) {
  std::string route = argc > 1 ? argv[1] : "";
  start();
  if (route == "file" || route == "library_file")
    launch_file(argv[2], argv[3], route == "library_file");
  else if (route == "extra")
    launch_extra();
  else if (route == "ex" || route == "ex_attributes")
    launch_ex(route == "ex_attributes");
  else if (route == "cooperative")
    launch_cooperative();
  else if (!launch_loaded(route) && !launch_by_function(route))
    return 64;
  return 0;
}
