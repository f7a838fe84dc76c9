// Cooperative and cluster launches.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

// Each step needs all blocks of the one before.
__global__ void kc_cooperative(float* x, float* y, int n, int steps) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int step = 0; step < steps; ++step) {
    if (i < n) y[i] = (x[i] + x[(i + n / 2) % n]) * 0.5f;
    grid.sync();
    if (i < n) x[i] = y[(i + 1) % n];
    grid.sync();
  }
}

// Reads the neighbour's shared memory in the cluster.
__global__ void kc_cluster(const unsigned* x, unsigned* y) {
  __shared__ unsigned tile[128];
  cg::cluster_group cluster = cg::this_cluster();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i] * 3;
  cluster.sync();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  y[i] = cluster.map_shared_rank(tile, next)[127 - threadIdx.x] + cluster.num_blocks();
  cluster.sync();
}

__global__ void __cluster_dims__(2, 1, 1) kc_fixed_cluster(unsigned* y) {
  cg::cluster_group cluster = cg::this_cluster();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = y[i] * 2 + cluster.block_rank() * 10 + cluster.num_blocks();
}

int main() {
  const int n = 4096;
  float* x = on_device(numbers<float>(n, 1));
  float* y = on_device(std::vector<float>(n));
  int count = n, steps = 4;
  void* arguments[] = {&x, &y, &count, &steps};
  MUST(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(kc_cooperative), dim3(n / 128), dim3(128),
                                   arguments));
  report("cooperative", x, n);

  unsigned* from = on_device(numbers<unsigned>(n, 2));
  unsigned* to = on_device(std::vector<unsigned>(n));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(n / 128);
  config.blockDim = dim3(128);
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  MUST(cudaLaunchKernelEx(&config, kc_cluster, static_cast<const unsigned*>(from), to));
  report("cluster", to, n);
  kc_fixed_cluster<<<n / 128, 128>>>(to);
  report("fixed cluster", to, n);
}
