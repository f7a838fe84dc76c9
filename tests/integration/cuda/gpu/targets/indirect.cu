// Calls through function pointers and virtual tables, and kernels that launch kernels. The pointers are in a
// variable, in constant memory, among the parameters, and in memory that another kernel wrote.
#include <new>

#include "check.h"

typedef float (*Operation)(float, float);
__device__ float sum(float a, float b) {
  return a + b;
}
__device__ float product(float a, float b) {
  return a * b + 1;
}
__device__ Operation table[2] = {sum, product};
__constant__ Operation constant[2] = {product, sum};
__device__ Operation chosen = product;

struct Base {
  float scale;
  __device__ explicit Base(float scale) : scale(scale) {}
  __device__ virtual float apply(float x) const { return x + scale; }
};
struct Derived : Base {
  __device__ explicit Derived(float scale) : Base(scale) {}
  __device__ float apply(float x) const override { return x * scale; }
};
// Objects in memory that the host took, one behind the other.
struct Room {
  alignas(16) char bytes[32];
};

__global__ void kc_table(float* x, int which) {
  x[threadIdx.x] = table[which](x[threadIdx.x], 2);
}
__global__ void kc_constant(float* x, int which) {
  x[threadIdx.x] = constant[which](x[threadIdx.x], 3);
}
__global__ void kc_passed(float* x, Operation operation) {
  x[threadIdx.x] = operation(x[threadIdx.x], 4);
}
__global__ void kc_take(Operation* out) {
  out[0] = sum;
  out[1] = product;
}
__global__ void kc_stored(float* x, const Operation* operations) {
  x[threadIdx.x] = operations[threadIdx.x & 1](x[threadIdx.x], 5);
}
__global__ void kc_make(Room* room, Base** objects) {
  objects[0] = new (room) Base(6);
  objects[1] = new (room + 1) Derived(7);
}
__global__ void kc_virtual(float* x, Base* const* objects) {
  x[threadIdx.x] = objects[threadIdx.x & 1]->apply(x[threadIdx.x]);
}

#ifdef LAUNCHES_ON_DEVICE
__global__ void kc_child(float* x, float by) {
  x[threadIdx.x] += by;
}
__global__ void kc_parent(float* x) {
  if (threadIdx.x == 0) {
    kc_child<<<1, 32>>>(x, 8);
    kc_child<<<1, 32>>>(x, 9);
  }
}
#endif

int main() {
  float* x = on_device(numbers<float>(32, 1));
  Operation* operations = on_device(std::vector<Operation>(2));
  Room* room = on_device(std::vector<Room>(2));
  Base** objects = on_device(std::vector<Base*>(2));
  kc_table<<<1, 32>>>(x, 1);
  kc_constant<<<1, 32>>>(x, 1);
  Operation operation;
  MUST(cudaMemcpyFromSymbol(&operation, chosen, sizeof operation));
  kc_passed<<<1, 32>>>(x, operation);
  kc_take<<<1, 1>>>(operations);
  kc_stored<<<1, 32>>>(x, operations);
  report("pointers", x, 32);
  kc_make<<<1, 1>>>(room, objects);
  kc_virtual<<<1, 32>>>(x, objects);
  report("virtual", x, 32);
#ifdef LAUNCHES_ON_DEVICE
  kc_parent<<<1, 32>>>(x);
  report("launched", x, 32);
#endif
  MUST(cudaDeviceSynchronize());
}
