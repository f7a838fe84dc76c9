// Textures and surfaces over every kind of resource, and each way in which a kernel is given them.
#include "check.h"

namespace {

constexpr int width = 32, height = 16, depth = 6, levels = 3;

// What a kernel is given by value; others get the same in a constant, or in memory.
struct Objects {
  cudaTextureObject_t texture;
  cudaSurfaceObject_t surface;
};

struct Shape {
  Objects objects;
  int n;
  float* out;
};

cudaArray_t array_of(int w, int h, int d, unsigned flags, uint32_t seed) {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  MUST(cudaMalloc3DArray(&array, &format, make_cudaExtent(w, h, d), flags));
  size_t rows = h > 0 ? h : 1, layers = d > 0 ? d : 1;
  std::vector<float> values = numbers<float>(w * rows * layers, seed);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), w * sizeof(float), w, rows);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(w, rows, layers);
  copy.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&copy));
  return array;
}

cudaResourceDesc on(cudaArray_t array) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

cudaTextureObject_t texture(const cudaResourceDesc& resource, cudaTextureFilterMode filter,
                            cudaTextureAddressMode mode, bool normalized,
                            const cudaResourceViewDesc* view = nullptr) {
  cudaTextureDesc sampler{};
  for (auto& address : sampler.addressMode) address = mode;
  sampler.filterMode = filter;
  sampler.readMode = cudaReadModeElementType;
  sampler.normalizedCoords = normalized;
  sampler.mipmapFilterMode = filter;
  sampler.maxMipmapLevelClamp = levels - 1;
  sampler.borderColor[0] = 7.0f;
  cudaTextureObject_t object;
  MUST(cudaCreateTextureObject(&object, &resource, &sampler, view));
  return object;
}

cudaSurfaceObject_t surface(cudaArray_t array) {
  cudaResourceDesc resource = on(array);
  cudaSurfaceObject_t object;
  MUST(cudaCreateSurfaceObject(&object, &resource));
  return object;
}

void report_array(const char* name, cudaArray_t array, int w, int h, int d) {
  std::vector<float> values(size_t(w) * h * d);
  cudaMemcpy3DParms copy{};
  copy.srcArray = array;
  copy.dstPtr = make_cudaPitchedPtr(values.data(), w * sizeof(float), w, h);
  copy.extent = make_cudaExtent(w, h, d);
  copy.kind = cudaMemcpyDeviceToHost;
  MUST(cudaMemcpy3D(&copy));
  std::printf("%s %016llx\n", name,
              static_cast<unsigned long long>(checksum(values.data(), values.size() * sizeof(float))));
}

constexpr auto point = cudaFilterModePoint;
constexpr auto filtered = cudaFilterModeLinear;
constexpr auto clamp = cudaAddressModeClamp;

}  // namespace

__constant__ Objects constants;

__global__ void kc_1d(cudaTextureObject_t in, float* out) {
  out[threadIdx.x] = tex1D<float>(in, float(threadIdx.x) + 0.75f);
}

__global__ void kc_2d(cudaTextureObject_t in, float* out) {
  // Beyond the edges too: what is there depends on the sampler.
  out[threadIdx.y * width + threadIdx.x] =
      tex2D<float>(in, (float(threadIdx.x) - 3.3f) / 20, (float(threadIdx.y) - 2.7f) / 10);
}

__global__ void kc_3d(cudaTextureObject_t in, float* out) {
  out[(blockIdx.x * height + threadIdx.y) * width + threadIdx.x] =
      tex3D<float>(in, threadIdx.x + 0.5f, threadIdx.y + 0.5f, blockIdx.x + 0.5f);
}

__global__ void kc_layered(cudaTextureObject_t in, cudaSurfaceObject_t to) {
  float value = tex2DLayered<float>(in, threadIdx.x + 0.5f, threadIdx.y + 0.5f, blockIdx.x);
  surf2DLayeredwrite(value + 1, to, threadIdx.x * 4, threadIdx.y, blockIdx.x);
}

__global__ void kc_layered1d(cudaTextureObject_t in, float* out) {
  out[blockIdx.x * width + threadIdx.x] = tex1DLayered<float>(in, threadIdx.x + 0.5f, blockIdx.x);
}

__global__ void kc_cubemap(cudaTextureObject_t in, float* out) {
  float x = threadIdx.x / 4.0f - 3.9f, y = threadIdx.y / 2.0f - 3.9f, z = blockIdx.x - 1.6f;
  out[(blockIdx.x * height + threadIdx.y) * width + threadIdx.x] = texCubemap<float>(in, x, y, z);
}

__global__ void kc_mipmapped(cudaTextureObject_t in, cudaSurfaceObject_t second, float* out) {
  float x = (threadIdx.x + 0.5f) / width, y = (threadIdx.y + 0.5f) / height;
  out[threadIdx.y * width + threadIdx.x] = tex2DLod<float>(in, x, y, 1.3f);
  __syncthreads();
  if (threadIdx.x < width / 2 && threadIdx.y < height / 2)
    surf2Dwrite(float(threadIdx.x * threadIdx.y), second, threadIdx.x * 4, threadIdx.y);
}

__global__ void kc_linear(cudaTextureObject_t in, float* out) {
  out[threadIdx.x] = 3 * tex1Dfetch<float>(in, threadIdx.x);
}

__global__ void kc_pitched(cudaTextureObject_t in, float* out) {
  out[threadIdx.y * width + threadIdx.x] = tex2D<float>(in, threadIdx.x + 0.2f, threadIdx.y + 0.9f);
}

// 8-bit channels, read as floats from 0 to 1, four at a time.
__global__ void kc_bytes(cudaTextureObject_t in, float4* out) {
  out[threadIdx.x] = tex1D<float4>(in, threadIdx.x + 0.5f);
}

__device__ void turn(const Objects& objects, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x, x = at % width, y = at / width;
  if (at >= n) return;
  surf2Dwrite(2 * tex2D<float>(objects.texture, x + 0.5f, y + 0.5f), objects.surface, x * 4, y);
}

__global__ void kc_by_value(Shape given) {
  turn(given.objects, given.n);
  if (threadIdx.x == 0) given.out[blockIdx.x] = float(given.n);
}

__global__ void kc_constant(int n) {
  turn(constants, n);
}

__global__ void kc_bindless(const Objects* table, const long long* which, int n) {
  turn(table[*which], n);
}

// The surface is read and written: its old contents matter.
__global__ void kc_in_place(cudaSurfaceObject_t surface) {
  float value;
  surf2Dread(&value, surface, threadIdx.x * 4, threadIdx.y);
  surf2Dwrite(value * 2 + 1, surface, threadIdx.x * 4, threadIdx.y);
}

int main() {
  float* out = on_device(std::vector<float>(width * height * depth));
  dim3 plane(width, height);
  // Objects that go again: a replay has to reach the numbers that follow.
  cudaArray_t small = array_of(width, 0, 0, 0, 1);
  cudaTextureObject_t gone[3];
  for (auto& object : gone) object = texture(on(small), point, clamp, false);

  kc_1d<<<1, width>>>(texture(on(small), filtered, clamp, false), out);
  report("1d", out, width);
  MUST(cudaDestroyTextureObject(gone[1]));

  cudaArray_t flat = array_of(width, height, 0, 0, 2);
  kc_2d<<<1, plane>>>(texture(on(flat), filtered, cudaAddressModeWrap, true), out);
  report("2d wrap", out, width * height);
  kc_2d<<<1, plane>>>(texture(on(flat), point, cudaAddressModeBorder, true), out);
  report("2d border", out, width * height);

  kc_3d<<<depth, plane>>>(texture(on(array_of(width, height, depth, 0, 3)), point, clamp, false), out);
  report("3d", out, width * height * depth);

  cudaArray_t layers = array_of(width, height, depth, cudaArrayLayered | cudaArraySurfaceLoadStore, 4);
  cudaArray_t written = array_of(width, height, depth, cudaArrayLayered | cudaArraySurfaceLoadStore, 5);
  kc_layered<<<depth, plane>>>(texture(on(layers), point, clamp, false), surface(written));
  report_array("layered", written, width, height, depth);

  cudaArray_t rows = array_of(width, 0, depth, cudaArrayLayered, 6);
  kc_layered1d<<<depth, width>>>(texture(on(rows), point, clamp, false), out);
  report("layered 1d", out, width * depth);

  cudaArray_t cube = array_of(width, width, 6, cudaArrayCubemap, 7);
  kc_cubemap<<<depth, plane>>>(texture(on(cube), point, clamp, true), out);
  report("cubemap", out, width * height * depth);

  cudaMipmappedArray_t pyramid;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  MUST(cudaMallocMipmappedArray(&pyramid, &format, make_cudaExtent(width, height, 0), levels,
                                cudaArraySurfaceLoadStore));
  cudaArray_t level[levels];
  for (int i = 0; i < levels; ++i) {
    MUST(cudaGetMipmappedArrayLevel(&level[i], pyramid, i));
    size_t w = width >> i, h = height >> i;
    std::vector<float> values = numbers<float>(w * h, 8 + i);
    MUST(cudaMemcpy2DToArray(level[i], 0, 0, values.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
  }
  cudaResourceDesc mipmapped{};
  mipmapped.resType = cudaResourceTypeMipmappedArray;
  mipmapped.res.mipmap.mipmap = pyramid;
  cudaResourceViewDesc view{};
  view.format = cudaResViewFormatFloat1;
  view.width = width;
  view.height = height;
  view.lastMipmapLevel = levels - 1;
  kc_mipmapped<<<1, plane>>>(texture(mipmapped, point, clamp, true, &view), surface(level[1]), out);
  report("mipmapped", out, width * height);
  report_array("level 1", level[1], width / 2, height / 2, 1);

  cudaResourceDesc linear{};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear = {on_device(numbers<float>(width, 11)), format, width * sizeof(float)};
  kc_linear<<<1, width>>>(texture(linear, point, clamp, false), out);
  report("linear", out, width);

  cudaResourceDesc pitched{};
  pitched.resType = cudaResourceTypePitch2D;
  auto& memory = pitched.res.pitch2D;
  MUST(cudaMallocPitch(&memory.devPtr, &memory.pitchInBytes, width * 4, height));
  memory.desc = format;
  memory.width = width;
  memory.height = height;
  std::vector<float> plain = numbers<float>(width * height, 12);
  MUST(cudaMemset2D(memory.devPtr, memory.pitchInBytes, 0, memory.pitchInBytes, height));
  MUST(cudaMemcpy2D(memory.devPtr, memory.pitchInBytes, plain.data(), width * 4, width * 4, height,
                    cudaMemcpyHostToDevice));
  kc_pitched<<<1, plane>>>(texture(pitched, filtered, clamp, false), out);
  report("pitch2d", out, width * height);

  cudaChannelFormatDesc four = cudaCreateChannelDesc<uchar4>();
  cudaArray_t bytes;
  MUST(cudaMallocArray(&bytes, &four, width));
  std::vector<unsigned char> colours = numbers<unsigned char>(width * 4, 13);
  MUST(cudaMemcpy2DToArray(bytes, 0, 0, colours.data(), width * 4, width * 4, 1, cudaMemcpyHostToDevice));
  cudaTextureDesc scaled{};
  scaled.addressMode[0] = clamp;
  scaled.readMode = cudaReadModeNormalizedFloat;
  cudaResourceDesc on_bytes = on(bytes);
  cudaTextureObject_t colour;
  MUST(cudaCreateTextureObject(&colour, &on_bytes, &scaled, nullptr));
  kc_bytes<<<1, width>>>(colour, reinterpret_cast<float4*>(out));
  report("bytes", out, width * 4);

  cudaArray_t target = array_of(width, height, 0, cudaArraySurfaceLoadStore, 14);
  Objects objects{texture(on(flat), point, clamp, false), surface(target)};
  int n = width * height - 5;
  kc_by_value<<<4, 128>>>(Shape{objects, n, out});
  report_array("by value", target, width, height, 1);
  report("n", out, 4);

  target = array_of(width, height, 0, cudaArraySurfaceLoadStore, 15);
  objects.surface = surface(target);
  MUST(cudaMemcpyToSymbol(constants, &objects, sizeof objects));
  kc_constant<<<4, 128>>>(n);
  report_array("constant", target, width, height, 1);

  target = array_of(width, height, 0, cudaArraySurfaceLoadStore, 16);
  Objects other{texture(on(flat), point, clamp, false), surface(target)};
  kc_bindless<<<4, 128>>>(on_device(std::vector<Objects>{objects, other}),
                          on_device(std::vector<long long>{1}), n);
  report_array("bindless", target, width, height, 1);

  kc_in_place<<<1, plane>>>(other.surface);
  report_array("in place", target, width, height, 1);
}
