// scenes NAME: what the wrappers learn from a program's calls, on the stand-in driver. Prints what went
// wrong, a line each; the exit status is the number of lines.
#include <dlfcn.h>
#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

// An ordinary program: the plain header, with its macros.
#include "../clients/client.h"
#include "observed.h"

extern "C" {
int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*, const char* const*);
int nvrtcCompileProgram(void*, int, const char* const*);
int nvrtcGetPTXSize(void*, size_t*);
int nvrtcGetPTX(void*, char*);
int nvrtcDestroyProgram(void**);
}

namespace {

std::atomic<int> failures{0};

#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) {                                           \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                 \
    }                                                             \
  } while (0)

template <typename Function>
Function shim(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

ObservedLaunch observed() {
  ObservedLaunch launch = {};
  shim<void (*)(ObservedLaunch*)>("routes_launch")(&launch);
  return launch;
}

bool region(CUdeviceptr address, ObservedRegion* found) {
  return shim<int (*)(unsigned long long, ObservedRegion*)>("routes_region")(address, found) != 0;
}

bool is_known(CUdeviceptr address) {
  ObservedRegion found;
  return region(address, &found);
}

bool is_capturing() {
  return shim<int (*)()>("routes_is_capturing")() != 0;
}

constexpr const char* image = PTX_HEAD PTX_VECTOR_ADD PTX_INCREMENT PTX_ADD_BATCH;

// Each form of a launch gives the same description.
void launches() {
  CUcontext context = start();
  CUmodule module;
  CUfunction add = load(image, VECTOR_ADD, &module);
  unsigned n = 300;
  CUdeviceptr a = upload(ramp(n)), b = upload(ramp(n)), out = allocate(n * 4);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  struct {
    CUdeviceptr a, b, out;
    unsigned n;
  } packed = {a, b, out, n};
  auto check = [&](const char* route, const void* on) {
    CHECK(cuCtxSynchronize());  // the next launch writes the same memory, on another stream
    ObservedLaunch seen = observed();
    std::string routes = seen.routes;
    EXPECT(routes.size() > strlen(route) &&
           routes.compare(routes.size() - strlen(route) - 1, strlen(route), route) == 0);
    EXPECT(std::string(seen.name) == VECTOR_ADD);
    EXPECT(std::string(seen.demangled) == "vector_add(float const*, float const*, float*, int)");
    EXPECT(seen.grid[0] == 2 && seen.grid[1] == 1 && seen.grid[2] == 1 && seen.block[0] == 256);
    EXPECT(seen.stream == on && seen.context == context && seen.device == 0);
    EXPECT(seen.parameter_bytes == 28 && memcmp(seen.parameters, &packed, 28) == 0);
    EXPECT(seen.image_kind == 2 && seen.image_bytes == strlen(image) &&
           memcmp(seen.image, image, strlen(image)) == 0);
    return seen;
  };
  void* parameters[] = {&a, &b, &out, &n};
  CHECK(cuLaunchKernel(add, 2, 1, 1, 256, 1, 1, 128, stream, parameters, nullptr));
  EXPECT(check("cuLaunchKernel", stream).shared_bytes == 128);
  size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(add, 2, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  check("cuLaunchKernel", nullptr);
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = 2;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  CUlaunchConfig config = {};
  config.gridDimX = 2, config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256, config.hStream = stream, config.attrs = attributes, config.numAttrs = 2;
  CHECK(cuLaunchKernelEx(&config, add, parameters, nullptr));
  ObservedLaunch extended = check("cuLaunchKernelEx", stream);
  EXPECT(extended.cluster[0] == 2 && extended.attributes == 2 && extended.cooperative == 0);
  CHECK(cuLaunchCooperativeKernel(add, 2, 1, 1, 256, 1, 1, 0, stream, parameters));
  EXPECT(check("cuLaunchCooperativeKernel", stream).cooperative == 1);
  EXPECT(observed().launches == 4 && observed().runs == 4);
  // What the driver refuses, it refuses.
  EXPECT(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) != CUDA_SUCCESS);
  EXPECT(cuLaunchKernelEx(nullptr, add, parameters, nullptr) != CUDA_SUCCESS);
  CHECK(cuCtxSynchronize());
  CHECK(cuModuleUnload(module));
}

// A CUkernel, its CUfunction and its module's function are one kernel of one image.
void libraries() {
  start();
  std::string path = "/tmp/kerncap-routes-" + std::to_string(getpid()) + ".ptx";
  FILE* file = fopen(path.c_str(), "w");
  fputs(image, file);
  fclose(file);
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  CHECK(cuLibraryLoadFromFile(&library, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  unlink(path.c_str());
  CHECK(cuLibraryGetKernel(&kernel, library, INCREMENT));
  CHECK(cuKernelGetFunction(&function, kernel));
  CUdeviceptr x = upload(std::vector<int>{0});
  launch(reinterpret_cast<CUfunction>(kernel), 1, 1, {&x});
  launch(function, 1, 1, {&x});
  EXPECT(observed().launches == 2);
  EXPECT(std::string(observed().origin) == "file " + path);
  CHECK(cuLibraryUnload(library));
}

// The source that a program gave to NVRTC is found again behind the image that it loads.
void compiled() {
  start();
  void* program = nullptr;
  const char* header = "int one;";
  const char* name = "one.h";
  const char* option = "-DX=1";
  std::string source = PTX_INCREMENT;
  nvrtcCreateProgram(&program, source.c_str(), "k.cu", 1, &header, &name);
  nvrtcCompileProgram(program, 1, &option);
  size_t bytes = 0;
  nvrtcGetPTXSize(program, &bytes);
  std::string ptx(bytes, 0);
  nvrtcGetPTX(program, &ptx[0]);
  nvrtcDestroyProgram(&program);
  CUfunction increment = load(ptx.c_str(), INCREMENT);
  ptx.assign(ptx.size(), 'x');  // the program's own copy goes
  CUdeviceptr x = upload(std::vector<int>{0});
  launch(increment, 1, 1, {&x});
  ObservedLaunch seen = observed();
  EXPECT(std::string(seen.origin) == "nvrtc");
  std::string json = seen.nvrtc;
  EXPECT(json.find("\"name\":\"k.cu\"") != std::string::npos);
  EXPECT(json.find("\"one.h\":\"int one;\"") != std::string::npos);
  EXPECT(json.find("[\"-DX=1\"]") != std::string::npos);
  EXPECT(json.find(INCREMENT) != std::string::npos);
  load(image, VECTOR_ADD);
}

void memory() {
  CUcontext context = start();
  ObservedRegion found;
  CUdeviceptr plain = allocate(1000), managed, pool;
  EXPECT(region(plain + 999, &found) && found.base == plain && found.size == 1000 && found.kind == 0 &&
         found.device == 0);
  EXPECT(!is_known(plain + 1000));
  CHECK(cuMemFree(plain));
  EXPECT(!is_known(plain));
  EXPECT(cuMemFree(plain) != CUDA_SUCCESS);
  CHECK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
  EXPECT(region(managed, &found) && found.kind == 1);
  CHECK(cuMemFree(managed));
  void* pinned;
  CHECK(cuMemHostAlloc(&pinned, 4096, 0));
  EXPECT(region(reinterpret_cast<CUdeviceptr>(pinned), &found) && found.kind == 2 && found.size == 4096);
  CHECK(cuMemFreeHost(pinned));
  EXPECT(!is_known(reinterpret_cast<CUdeviceptr>(pinned)));
  CHECK(cuMemAllocAsync(&pool, 128, nullptr));
  EXPECT(region(pool, &found) && found.size == 128);
  CHECK(cuMemFreeAsync(pool, nullptr));
  EXPECT(!is_known(pool));
  CUdeviceptr range;
  size_t granule = 2 << 20;
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp where = {};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemAddressReserve(&range, 2 * granule, 0, 0, 0));
  EXPECT(!is_known(range));  // reserved is not mapped
  CHECK(cuMemCreate(&handle, granule, &where, 0));
  CHECK(cuMemMap(range + granule, granule, 0, handle, 0));
  EXPECT(!is_known(range) && region(range + granule, &found) && found.size == granule && found.device == 0);
  EXPECT(std::string(found.how) == "cuMemMap");
  CHECK(cuMemUnmap(range + granule, granule));
  EXPECT(!is_known(range + granule));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(range, 2 * granule));
  auto textures = shim<size_t (*)(void*)>("routes_textures");
  auto levels = shim<unsigned (*)(void*)>("routes_levels");
  CUDA_ARRAY3D_DESCRIPTOR shape = {16, 16, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUmipmappedArray pyramid;
  CHECK(cuMipmappedArrayCreate(&pyramid, &shape, 3));
  EXPECT(levels(pyramid) == 3);
  CUDA_RESOURCE_DESC resource = {};
  CHECK(cuMipmappedArrayGetLevel(&resource.res.array.hArray, pyramid, 1));
  CUDA_TEXTURE_DESC sampler = {};
  CUtexObject texture, lost;
  CUsurfObject surface;
  CHECK(cuTexObjectCreate(&texture, &resource, &sampler, nullptr));
  CHECK(cuSurfObjectCreate(&surface, &resource));
  EXPECT(textures(context) == 101);
  CHECK(cuTexObjectDestroy(texture));
  EXPECT(textures(context) == 100);
  CHECK(cuSurfObjectDestroy(surface));
  EXPECT(textures(context) == 0);
  CHECK(cuTexObjectCreate(&lost, &resource, &sampler, nullptr));
  CHECK(cuMipmappedArrayDestroy(pyramid));
  EXPECT(levels(pyramid) == 0);
  CUstream streams[3];
  auto count = shim<size_t (*)(void*)>("routes_streams");
  for (CUstream& stream : streams) CHECK(cuStreamCreate(&stream, 0));
  EXPECT(count(context) == 3);
  for (CUstream& stream : streams) CHECK(cuStreamDestroy(stream));
  EXPECT(count(context) == 0);
  // Memory that the target still has when its context ends.
  CUdeviceptr left = allocate(64);
  CHECK(cuDevicePrimaryCtxReset(0));
  EXPECT(!is_known(left));
  EXPECT(textures(context) == 0);
}

// Exact, whatever thread begins and ends, and where the driver refuses.
void captures() {
  CUcontext context = start();
  CUstream one, two;
  CUgraph graph;
  CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
  EXPECT(!is_capturing());
  CHECK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT(is_capturing());
  EXPECT(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);
  EXPECT(cuStreamEndCapture(two, &graph) != CUDA_SUCCESS);
  EXPECT(is_capturing());
  CHECK(cuStreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED));
  // A relaxed capture may end on another thread.
  std::thread([&] {
    CUgraph other;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamEndCapture(one, &other));
    CHECK(cuGraphDestroy(other));
  }).join();
  EXPECT(is_capturing());
  CHECK(cuStreamEndCapture(two, &graph));
  CHECK(cuGraphDestroy(graph));
  EXPECT(!is_capturing());
  CHECK(cuStreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuStreamDestroy(two));
  EXPECT(!is_capturing());
  // A launch into a capture is none yet; it counts when the graph is launched.
  CUfunction increment = load(image, INCREMENT);
  CUdeviceptr x = upload(std::vector<int>{0});
  CHECK(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(increment, 1, 1, {&x}, one);
  CHECK(cuStreamEndCapture(one, &graph));
  EXPECT(observed().runs == 0);
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));  // as programs do: the node's handle is needed all the same
  CHECK(cuGraphLaunch(exec, one));
  CHECK(cuGraphLaunch(exec, one));
  CHECK(cuStreamSynchronize(one));
  EXPECT(observed().runs == 2 && observed().launches == 2);
  EXPECT(download<int>(x, 1)[0] == 2);
  CHECK(cuGraphExecDestroy(exec));
}

// Three kernels in a row: each captured alone, in its turn, with its own parameters.
void graphs() {
  start();
  CUmodule module;
  CUfunction increment = load(image, INCREMENT, &module), add;
  CHECK(cuModuleGetFunction(&add, module, VECTOR_ADD));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr x = upload(std::vector<int>{0}), y = upload(std::vector<int>{10}),
              z = upload(std::vector<int>{5});
  CUgraph graph;
  CUgraphNode nodes[3];
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = increment;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY =
      kernel.blockDimZ = 1;
  CUdeviceptr* targets[] = {&x, &y, &x};
  for (int i = 0; i < 3; ++i) {
    void* parameters[] = {targets[i]};
    kernel.kernelParams = parameters;
    CHECK(cuGraphAddKernelNode(&nodes[i], graph, i == 0 ? nullptr : &nodes[i - 1], i == 0 ? 0 : 1, &kernel));
  }
  CUgraphExec exec;
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  void* other[] = {&z};
  kernel.kernelParams = other;
  CHECK(cuGraphExecKernelNodeSetParams(exec, nodes[1], &kernel));
  CHECK(cuGraphNodeSetEnabled(exec, nodes[2], 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(std::string(observed().routes) == "cuGraphLaunch node 0\ncuGraphLaunch node 1\n");
  EXPECT(memcmp(observed().parameters, &z, 8) == 0);
  EXPECT(download<int>(x, 1)[0] == 1 && download<int>(y, 1)[0] == 10 && download<int>(z, 1)[0] == 6);
  unsigned enabled = 1;
  CHECK(cuGraphNodeGetEnabled(exec, nodes[2], &enabled));
  EXPECT(enabled == 0);
  CHECK(cuGraphNodeGetEnabled(exec, nodes[0], &enabled));
  EXPECT(enabled == 1);
  CHECK(cuGraphExecDestroy(exec));
  // A host node can't be disabled: the parts are made of a copy, and it runs once.
  static int calls = 0;
  CUDA_HOST_NODE_PARAMS host = {[](void*) { ++calls; }, nullptr};
  CUgraphNode node;
  CHECK(cuGraphAddHostNode(&node, graph, &nodes[2], 1, &host));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(observed().runs == 5 && calls == 1 && std::string(observed().refused).empty());
  EXPECT(download<int>(x, 1)[0] == 3 && download<int>(y, 1)[0] == 11);
  CHECK(cuGraphExecDestroy(exec));
  // A graph with a memory node can't be copied, nor stopped with a host node: named, and the graph runs
  // whole.
  CUDA_MEM_ALLOC_NODE_PARAMS memory = {};
  memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.bytesize = 64;
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &memory));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  CHECK(cuGraphLaunch(exec, stream));
  CHECK(cuStreamSynchronize(stream));
  EXPECT(observed().runs == 5 && calls == 2);
  EXPECT(std::string(observed().refused).find("node 4 of its graph is a host function node") == 0);
  EXPECT(download<int>(x, 1)[0] == 5 && download<int>(y, 1)[0] == 12);
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

// The child has nothing of the parent's, no lock that another thread held, and may exec.
void forked() {
  start();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUdeviceptr plain = allocate(1000);
  bool stop = false;
  std::thread busy([&] {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
      void* found = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
      if (found == nullptr) break;
    }
  });
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      int wrong = is_capturing() ? 1 : 0;
      wrong += shim<int (*)()>("routes_forks")() == 1 ? 0 : 2;
      CUdeviceptr nothing;
      wrong += cuMemAlloc(&nothing, 8) == CUDA_SUCCESS ? 4 : 0;
      if (wrong != 0 || i % 2 == 0) _exit(wrong);
      execl("/bin/sh", "sh", "-c", "test -n \"$KERNCAP_SESSION\"", nullptr);
      _exit(8);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  busy.join();
  EXPECT(is_capturing() && is_known(plain));
}

// A cubin with a parameter list and nothing else, as bytes: what an older driver's client has to go by.
std::string cubin_of(const std::string& info) {
  const std::string names = std::string("\0.shstrtab\0.nv.info.kernel\0", 27);
  Elf64_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header + names.size() + info.size();
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header;
  sections[1].sh_size = names.size();
  sections[2].sh_name = 11;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = sizeof header + names.size();
  sections[2].sh_size = info.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += names + info;
  return bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
}

std::string parameter_entry(uint16_t ordinal, uint16_t offset, uint32_t size) {
  struct {
    uint8_t format = 4, attribute = 0x17;
    uint16_t bytes = 12;
    uint32_t index = 0;
    uint16_t ordinal, offset;
    uint32_t packed;
  } entry;
  entry.ordinal = ordinal;
  entry.offset = offset;
  entry.packed = size << 18 | 0x1f000;
  return std::string(reinterpret_cast<const char*>(&entry), 16);
}

// How long an image is, and what its parameter list says.
void images() {
  auto measure = shim<int (*)(const void*, const void**, size_t*)>("routes_measure");
  auto layout = shim<int (*)(const void*, size_t, const char*, unsigned*)>("routes_layout");
  // A value without a payload between the two; the second parameter is listed first, as compilers do.
  std::string flag = std::string("\x03\x1b\xff\x00", 4);
  std::string cubin = cubin_of(parameter_entry(1, 8, 4) + flag + parameter_entry(0, 0, 8));
  std::string padded = cubin + "after the image";
  const void* start = nullptr;
  size_t size = 0;
  unsigned values[8] = {};
  EXPECT(measure(padded.data(), &start, &size) == 1 && start == padded.data() && size == cubin.size());
  EXPECT(layout(cubin.data(), cubin.size(), "kernel", values) == 2);
  EXPECT(values[0] == 0 && values[1] == 8 && values[2] == 8 && values[3] == 4);
  EXPECT(layout(cubin.data(), cubin.size(), "kern", values) == -1);
  EXPECT(layout(cubin.data(), cubin.size() - 1, "kernel", values) == -1);  // torn
  struct {
    uint32_t magic = 0xBA55ED50;
    uint16_t version = 1, header = 16;
    uint64_t payload = 40;
    char bytes[64] = {};
  } fatbin;
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data;
    const void* more = nullptr;
  } wrapper;
  wrapper.data = &fatbin;
  for (uint32_t version : {1, 2}) {
    wrapper.version = version;
    EXPECT(measure(&wrapper, &start, &size) == 0 && start == &fatbin && size == 56);
  }
  EXPECT(measure(image, &start, &size) == 2 && size == strlen(image));
  EXPECT(measure("\x01\x02\x03\x04 is no image at all", &start, &size) == 3 && size == 0);
  EXPECT(measure(nullptr, &start, &size) == 3);
}

// Eight threads that load, allocate, launch, capture and free all at once; every launch is counted once
// and every result is right.
void together() {
  CUcontext context = start();
  constexpr int threads = 8, rounds = 40;
  CUfunction shared = load(image, INCREMENT);
  CUdeviceptr sums[threads];
  for (CUdeviceptr& sum : sums) sum = upload(std::vector<int>{0});
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      CHECK(cuCtxSetCurrent(context));
      CUstream stream;
      CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      for (int round = 0; round < rounds; ++round) {
        CUdeviceptr x = allocate(64);
        EXPECT(is_known(x));
        CUmodule module;
        CUfunction own = load(image, INCREMENT, &module);
        launch(shared, 1, 1, {&sums[t]}, stream);
        launch(own, 1, 1, {&sums[t]}, stream);
        CUgraph graph;
        CUgraphExec exec;
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        launch(shared, 1, 1, {&sums[t]}, stream);
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiate(&exec, graph, 0));
        CHECK(cuGraphDestroy(graph));
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuGraphExecDestroy(exec));
        CHECK(cuModuleUnload(module));
        CHECK(cuMemFree(x));
      }
      CHECK(cuStreamDestroy(stream));
    });
  }
  for (std::thread& thread : all) thread.join();
  for (CUdeviceptr sum : sums) EXPECT(download<int>(sum, 1)[0] == 3 * rounds);
  EXPECT(!is_capturing());
  launch(shared, 1, 1, {&sums[0]});
  CHECK(cuCtxSynchronize());
  EXPECT(observed().launches == 2 * threads * rounds + 1);
}

struct Scene {
  const char* name;
  void (*run)();
};

const Scene scenes[] = {{"launches", launches}, {"libraries", libraries}, {"compiled", compiled},
                        {"memory", memory},     {"captures", captures},   {"graphs", graphs},
                        {"forked", forked},     {"images", images},       {"together", together}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 101;
  if (shim<void*>("routes_launch") == nullptr) return 103;  // not preloaded
  for (const Scene& scene : scenes) {
    if (strcmp(scene.name, argv[1]) != 0) continue;
    scene.run();
    return failures;
  }
  return 102;
}
