#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__device__ __noinline__ float pick(const float* x, long i) {
    return x[i];
}

__global__ void scale(float* y, const float* x, int n, float a) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x;
    tile[threadIdx.y * 32 + threadIdx.x] = x[i];
    __syncthreads();
    long j = i == 165 ? (1L << 40) : i;
    y[i] = a * pick(x, j) + tile[63 - threadIdx.x];
}

__global__ void misaligned(float* y, const char* x, int n) {
    int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x;
    y[i] = *reinterpret_cast<const float*>(x + 4 * i + (i == 70 ? 2 : 0));
}

__global__ void beyond(float* y, int n) {
    __shared__ float tile[64];
    int i = threadIdx.y * 32 + threadIdx.x;
    tile[i] = y[i];
    __syncthreads();
    y[i] = tile[i == 40 ? n * 100000 : i];
}

__global__ void checked(float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x;
    assert(i < n - 1);
    y[i] = 1;
}

__global__ void trapped(float* y, volatile int* flag) {
    int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x;
    long long from = clock64();
    while (i == 130 && *flag == 0)
        if (clock64() - from > 20000000) __trap();
    y[i] = 1;
}

__global__ void hanging(float* y, volatile int* flag) {
    int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x;
    __syncthreads();
    while (i == 130 && *flag == 0) {}
    y[i] = 1;
}

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "illegal";
    const int n = 256;
    float *x, *y; int* flag;
    float host[n];
    for (int i = 0; i < n; i++) host[i] = i;
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20);
    cudaMalloc(&x, sizeof host); cudaMalloc(&y, sizeof host); cudaMalloc(&flag, 4);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemset(y, 0, sizeof host); cudaMemset(flag, 0, 4);
    dim3 grid(4), block(32, 2);
    printf("x %p y %p flag %p\n", (void*)x, (void*)y, (void*)flag);
    fflush(stdout);
    if (!strcmp(way, "illegal")) scale<<<grid, block>>>(y, x, n, 2.5f);
    if (!strcmp(way, "misaligned")) misaligned<<<grid, block>>>(y, (char*)x, n);
    if (!strcmp(way, "shared")) beyond<<<1, block>>>(y, n);
    if (!strcmp(way, "assert")) checked<<<grid, block>>>(y, n);
    if (!strcmp(way, "trap")) trapped<<<grid, block>>>(y, flag);
    if (!strcmp(way, "hang")) hanging<<<grid, block>>>(y, flag);
    cudaError_t e = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(e));
    return e != cudaSuccess;
}
