// Kernels that are proved equal to another one, each launched once.
#include "../../../equality/cuda/kernels.cu"
#include "check.h"

static std::vector<float> fractions(size_t count, uint32_t seed) {
  std::vector<float> found = numbers<float>(count, seed);
  for (float& one : found) one = one / 512.0f - 1.0f;
  return found;
}

int main() {
  const int n = 1000, rows = 6, columns = 200;
  float* x = on_device(fractions(n, 1));
  float* out = on_device(fractions(n, 2));
  axpy_one<<<8, 128>>>(2.5f, x, out, n);
  axpy_strided<<<3, 64>>>(2.5f, x, out, n);
  silu<<<8, 128>>>(x, out, n);
  silu_by_four<<<4, 64>>>(reinterpret_cast<float4*>(x), reinterpret_cast<float4*>(out), n);
  relu<<<8, 128>>>(x, out, n);
  relu_by_choice<<<16, 64>>>(x, out, n);
  report("elementwise", out, n);

  std::vector<__half> halves;
  for (float one : fractions(n, 3)) halves.push_back(__float2half(one));
  __half* from = on_device(halves);
  __half* to = on_device(std::vector<__half>(n));
  half_square<<<8, 128>>>(from, to, n);
  half_square_by_two<<<8, 64>>>(reinterpret_cast<__half2*>(from), reinterpret_cast<__half2*>(to), n);
  report("halves", to, n);

  float* wide = on_device(fractions(rows * columns, 4));
  float* w = on_device(fractions(columns, 5));
  float* b = on_device(fractions(columns, 6));
  float* normed = on_device(std::vector<float>(rows * columns));
  softmax_shuffles<<<rows, 96>>>(wide, normed, columns);
  softmax_shared<<<rows, 64, 256>>>(wide, normed, columns);
  layer_norm_two_passes<<<rows, 64>>>(wide, w, b, normed, columns, 1e-5f);
  layer_norm_welford<<<rows / 2, dim3(32, 2)>>>(wide, w, b, normed, columns, 1e-5f);
  rms_norm<<<rows, 64>>>(wide, w, normed, columns, 1e-5f);
  rms_norm_by_two<<<rows, 32, 128>>>(reinterpret_cast<float2*>(wide), reinterpret_cast<float2*>(w),
                                     reinterpret_cast<float2*>(normed), columns, 1e-5f);
  report("rows", normed, rows * columns);

  float* total = on_device(std::vector<float>(1));
  sum_one_block<<<1, 256>>>(x, total, n);
  report("sum", total, 1);
  sum_atomics<<<4, 64>>>(x, total, n);

  float* a = on_device(fractions(40 * 50, 7));
  float* second = on_device(fractions(33 * 50, 8));
  float* c = on_device(std::vector<float>(40 * 50));
  transpose<<<dim3(4, 5), dim3(16, 8)>>>(a, c, 40, 50);
  transpose_tiled<<<dim3(4, 3), dim3(16, 4)>>>(a, c, 40, 50);
  matmul<<<dim3(7, 5), dim3(8, 8)>>>(a, second, c, 40, 50, 33);
  matmul_tiled<<<dim3(4, 3), dim3(16, 16)>>>(a, second, c, 40, 50, 33);
  report("product", c, 40 * 50);

  std::vector<__half> few;
  for (float one : fractions(32 * 48, 9)) few.push_back(__float2half(one));
  __half* left = on_device(few);
  few.resize(48 * 24);
  __half* right = on_device(few);
  float* products = on_device(std::vector<float>(32 * 24));
  matmul_half<<<dim3(3, 4), dim3(8, 8)>>>(left, right, products, 32, 24, 48);
  matmul_fragments<<<dim3(3, 2), 32>>>(left, right, products, 32, 24, 48);
  report("fragments", products, 32 * 24);

  int* of_four = on_device(numbers<int>(n, 10));
  int* counts = on_device(std::vector<int>(4));
  count_one_by_one<<<8, 128>>>(of_four, counts, n);
  count_by_votes<<<4, 256>>>(of_four, counts, n);
  report("counts", counts, 4);
  MUST(cudaDeviceSynchronize());
  return 0;
}
