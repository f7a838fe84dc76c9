// Kernels that call what memory says: function pointers and virtual functions. hipcc or HIPRTC compiles them.
#pragma once

#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#endif

using Op = float (*)(float, float);

struct Room {};
__device__ inline void* operator new(__SIZE_TYPE__, Room, void* at) noexcept {
  return at;
}

__device__ __attribute__((noinline)) float add(float a, float b) {
  return a + b;
}
__device__ __attribute__((noinline)) float times(float a, float b) {
  return a * b;
}
__device__ Op table[2] = {add, times};

struct Shape {
  __device__ virtual float area(float x) const = 0;
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float length) : side(length) {}
  __device__ float area(float x) const override { return side * side + x; }
};
struct Frame : Shape {
  float width;
  __device__ explicit Frame(float length) : width(length) {}
  __device__ float area(float x) const override { return 4 * width - x; }
};
struct Walker {
  Op step;
  float at, by;
};

extern "C" __global__ void by_table(const int* which, float* x) {
  const int i = threadIdx.x;
  x[i] = table[which[i]](x[i], 3);
}

// Leaves addresses of functions in memory, and of virtual tables.
extern "C" __global__ void make(Op* ops, Shape** shapes, char* room, Walker* walkers) {
  const int i = threadIdx.x;
  ops[i] = i & 1 ? times : add;
  if (i & 1)
    shapes[i] = new (Room{}, room + 16 * i) Square(static_cast<float>(i));
  else
    shapes[i] = new (Room{}, room + 16 * i) Frame(static_cast<float>(i));
  walkers[i] = {i & 1 ? add : times, static_cast<float>(i), 2};
}

extern "C" __global__ void by_memory(const Op* ops, float* x) {
  const int i = threadIdx.x;
  x[i] = ops[i](x[i], 3);
}

extern "C" __global__ void by_argument(Op op, float* x) {
  x[threadIdx.x] = op(x[threadIdx.x], 5);
}

extern "C" __global__ void areas(const Shape* const* shapes, float* x) {
  x[threadIdx.x] = shapes[threadIdx.x]->area(x[threadIdx.x]);
}

// The pointer is next to what it changes.
extern "C" __global__ void walk(Walker* walkers) {
  Walker& one = walkers[threadIdx.x];
  one.at = one.step(one.at, one.by);
}
