// Pairs of kernels that are written independently of each other, and mistakes. kernels.ptx.gz is of
// `nvcc -std=c++17 -arch=sm_80 -Xcicc -nvvmir-library -Xcicc NONE -ptx`, where NONE has the bytes of
// `_NO_LIBRARY`.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// --- elementwise

KERNEL axpy_one(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

KERNEL axpy_strided(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += x[i] * a;
}

KERNEL axpy_off_by_one(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) y[i] = a * x[i] + y[i];
}

KERNEL silu(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

KERNEL silu_by_four(const float4* x, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 4) return;
  float4 v = x[i];
  v.x *= 0.5f * (1.0f + tanhf(0.5f * v.x));
  v.y *= 0.5f * (1.0f + tanhf(0.5f * v.y));
  v.z *= 0.5f * (1.0f + tanhf(0.5f * v.z));
  v.w *= 0.5f * (1.0f + tanhf(0.5f * v.w));
  out[i] = v;
}

KERNEL silu_biased(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] / (1.0f + expf(-x[i])) + 1e-6f;
}

KERNEL relu(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(x[i], 0.0f);
}

KERNEL relu_by_choice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    out[i] = v > 0.0f ? v : 0.0f;
  }
}

KERNEL half_square(const __half* x, __half* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __float2half(__half2float(x[i]) * __half2float(x[i]));
}

KERNEL half_square_by_two(const __half2* x, __half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 2) out[i] = __hmul2(x[i], x[i]);
}

// --- rows: one block each

__device__ float of_warp_sum(float v) {
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(0xffffffff, v, step);
  return v;
}

__device__ float of_warp_max(float v) {
  for (int step = 16; step; step >>= 1) v = fmaxf(v, __shfl_down_sync(0xffffffff, v, step));
  return __shfl_sync(0xffffffff, v, 0);
}

__device__ float of_block(float v, bool largest) {
  __shared__ float of_warps[32];
  v = largest ? of_warp_max(v) : of_warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = of_warps[0];
  for (int warp = 1; warp < blockDim.x / 32; warp++)
    v = largest ? fmaxf(v, of_warps[warp]) : v + of_warps[warp];
  return v;
}

KERNEL softmax_shuffles(const float* x, float* out, int columns) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float most = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, x[i]);
  most = of_block(most, true);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - most);
  sum = of_block(sum, false);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(x[i] - most) / sum;
}

KERNEL softmax_shared(const float* x, float* out, int columns) {
  extern __shared__ float values[];
  int t = threadIdx.x, row = blockIdx.x * columns;
  float most = -INFINITY, sum = 0.0f;  // online
  for (int i = t; i < columns; i += blockDim.x) {
    float now = fmaxf(most, x[row + i]);
    sum = sum * exp2f((most - now) * 1.4426950408889634f) + exp2f((x[row + i] - now) * 1.4426950408889634f);
    most = now;
  }
  values[t] = most;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) values[t] = fmaxf(values[t], values[t + half]);
    __syncthreads();
  }
  float of_all = values[0];
  __syncthreads();
  values[t] = sum * exp2f((most - of_all) * 1.4426950408889634f);
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) values[t] += values[t + half];
    __syncthreads();
  }
  sum = values[0];
  for (int i = t; i < columns; i += blockDim.x) out[row + i] = __expf(x[row + i] - of_all) * (1.0f / sum);
}

KERNEL softmax_no_barrier(const float* x, float* out, int columns) {
  extern __shared__ float values[];
  int t = threadIdx.x, row = blockIdx.x * columns;
  float most = -INFINITY, sum = 0.0f;
  for (int i = t; i < columns; i += blockDim.x) most = fmaxf(most, x[row + i]);
  values[t] = most;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) values[t] = fmaxf(values[t], values[t + half]);
    __syncthreads();
  }
  most = values[0];  // and no barrier before the next store
  for (int i = t; i < columns; i += blockDim.x) sum += expf(x[row + i] - most);
  values[t] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) values[t] += values[t + half];
    __syncthreads();
  }
  for (int i = t; i < columns; i += blockDim.x) out[row + i] = expf(x[row + i] - most) / values[0];
}

KERNEL softmax_without_max(const float* x, float* out, int columns) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i]);
  sum = of_block(sum, false);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(x[i]) / sum;
}

KERNEL layer_norm_two_passes(const float* x, const float* w, const float* b, float* out, int columns,
                             float eps) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += x[i];
  float mean = of_block(sum, false) / columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  float scale = rsqrtf(of_block(squares, false) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = (x[i] - mean) * scale * w[i] + b[i];
}

// One warp for each row.
KERNEL layer_norm_welford(const float* x, const float* w, const float* b, float* out, int columns,
                          float eps) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  x += row * columns;
  out += row * columns;
  float count = 0.0f, mean = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) {
    count += 1.0f;
    float off = x[i] - mean;
    mean += off / count;
    squares += off * (x[i] - mean);
  }
  for (int step = 16; step; step >>= 1) {
    float other = __shfl_xor_sync(0xffffffff, mean, step), its = __shfl_xor_sync(0xffffffff, count, step);
    float both = count + its, off = other - mean;
    squares += __shfl_xor_sync(0xffffffff, squares, step) + off * off * count * its / both;
    mean = (mean * count + other * its) / both;
    count = both;
  }
  float scale = 1.0f / sqrtf(squares / count + eps);
  for (int i = threadIdx.x; i < columns; i += 32) out[i] = (x[i] - mean) * scale * w[i] + b[i];
}

KERNEL layer_norm_epsilon(const float* x, const float* w, const float* b, float* out, int columns,
                          float eps) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += x[i];
  float mean = of_block(sum, false) / columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  float scale = 1.0f / (sqrtf(of_block(squares, false) / columns) + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = (x[i] - mean) * scale * w[i] + b[i];
}

KERNEL rms_norm(const float* x, const float* w, float* out, int columns, float eps) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += x[i] * x[i];
  float scale = rsqrtf(of_block(squares, false) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = x[i] * scale * w[i];
}

KERNEL rms_norm_by_two(const float2* x, const float2* w, float2* out, int columns, float eps) {
  __shared__ float total;
  extern __shared__ float values[];
  int t = threadIdx.x, pairs = columns / 2, row = blockIdx.x * pairs;
  float squares = 0.0f;
  for (int i = t; i < pairs; i += blockDim.x)
    squares += x[row + i].x * x[row + i].x + x[row + i].y * x[row + i].y;
  values[t] = squares;
  __syncthreads();
  if (t == 0) {
    float sum = 0.0f;
    for (int i = 0; i < blockDim.x; i++) sum += values[i];
    total = sum;
  }
  __syncthreads();
  float size = sqrtf(total / columns + eps);
  for (int i = t; i < pairs; i += blockDim.x)
    out[row + i] = make_float2(x[row + i].x / size * w[i].x, x[row + i].y / size * w[i].y);
}

KERNEL rms_norm_index(const float* x, const float* w, float* out, int columns, float eps) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += x[i] * x[i];
  float scale = rsqrtf(of_block(squares, false) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = x[i] * scale * w[i ^ 1];
}

// --- sums

KERNEL sum_atomics(const float* x, float* total, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  sum = of_block(sum, false);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

KERNEL sum_one_block(const float* x, float* total, int n) {
  __shared__ float values[256];
  float sum = 0.0f;
  for (int i = n - 1 - (int)threadIdx.x; i >= 0; i -= blockDim.x) sum += x[i];
  values[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *total += values[0];
}

KERNEL sum_tail(const float* x, float* total, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 32 * 32; i += gridDim.x * blockDim.x)
    sum += x[i];
  sum = of_block(sum, false);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

// --- transposes and products

KERNEL transpose(const float* x, float* out, int rows, int columns) {
  int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows && c < columns) out[c * rows + r] = x[r * columns + c];
}

template <int PAD, bool SWAP>
__device__ void transpose_by_tiles(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[16][16 + PAD];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  for (int i = 0; i < 16; i += 4)
    if (c < columns && r + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
  __syncthreads();
  c = blockIdx.y * 16 + threadIdx.x;
  r = blockIdx.x * 16 + threadIdx.y;
  for (int i = 0; i < 16; i += 4)
    if (c < rows && r + i < columns)
      out[(r + i) * rows + c] =
          SWAP ? tile[threadIdx.x][threadIdx.y + i] : tile[threadIdx.y + i][threadIdx.x];
}

KERNEL transpose_tiled(const float* x, float* out, int rows, int columns) {
  transpose_by_tiles<1, true>(x, out, rows, columns);
}

KERNEL transpose_forgotten(const float* x, float* out, int rows, int columns) {
  transpose_by_tiles<0, false>(x, out, rows, columns);
}

KERNEL matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}

template <bool BARRIER>
__device__ void matmul_by_tiles(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[16][16], right[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < k; start += 16) {
    left[threadIdx.y][threadIdx.x] =
        row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0.0f;
    right[threadIdx.y][threadIdx.x] =
        column < n && start + threadIdx.y < k ? b[(start + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    if (BARRIER) __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

KERNEL matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  matmul_by_tiles<true>(a, b, c, m, n, k);
}

KERNEL matmul_no_barrier(const float* a, const float* b, float* c, int m, int n, int k) {
  matmul_by_tiles<false>(a, b, c, m, n, k);
}

// --- a product of halves: by a thread for each element, and by tensor cores with copies on the way

KERNEL matmul_half(const __half* a, const __half* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float total = 0.0f;
  for (int i = 0; i < k; ++i) total += __half2float(a[row * k + i]) * __half2float(b[i * n + column]);
  c[row * n + column] = total;
}

__device__ void copy_16_bytes(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

__device__ void copy_part(unsigned left, unsigned right, const __half* a, const __half* b, int n, int k) {
  int lane = threadIdx.x;
  copy_16_bytes(left + lane * 16, a + lane / 2 * k + lane % 2 * 8);
  if (lane < 16) copy_16_bytes(right + lane * 16, b + lane * n);
  asm volatile("cp.async.commit_group;");
}

// A warp for 16 x 8 elements; `waits` for the part that it multiplies, not only for the one before.
template <bool waits>
__device__ void matmul_by_fragments(const __half* a, const __half* b, float* c, int n, int k) {
  __shared__ __align__(16) __half left[2][16 * 16], right[2][16 * 8];
  int lane = threadIdx.x;
  a += blockIdx.y * 16 * k;
  b += blockIdx.x * 8;
  c += blockIdx.y * 16 * n + blockIdx.x * 8;
  unsigned to_left = static_cast<unsigned>(__cvta_generic_to_shared(left));
  unsigned to_right = static_cast<unsigned>(__cvta_generic_to_shared(right));
  float total[4] = {};
  copy_part(to_left, to_right, a, b, n, k);
#pragma unroll 1
  for (int start = 0; start < k; start += 16) {
    int now = start / 16 % 2;
    if (start + 16 < k) {
      copy_part(to_left + 512 - now * 512, to_right + 256 - now * 256, a + start + 16, b + (start + 16) * n,
                n, k);
      if (waits) asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncwarp();
    unsigned x[4], y[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(to_left + now * 512 + lane % 16 * 32 + lane / 16 * 16));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1])
                 : "r"(to_right + now * 256 + lane % 16 * 16));
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(total[0]), "+f"(total[1]), "+f"(total[2]), "+f"(total[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    __syncwarp();
  }
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * n + lane % 4 * 2 + i % 2] = total[i];
}

KERNEL matmul_fragments(const __half* a, const __half* b, float* c, int m, int n, int k) {
  matmul_by_fragments<true>(a, b, c, n, k);
}

KERNEL matmul_no_wait(const __half* a, const __half* b, float* c, int m, int n, int k) {
  matmul_by_fragments<false>(a, b, c, n, k);
}

// --- how many of each of four: one by one, and by votes into shared memory

KERNEL count_one_by_one(const int* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counts[x[i] & 3], 1);
}

KERNEL count_by_votes(const int* x, int* counts, int n) {
  __shared__ int some[4];
  if (threadIdx.x < 4) some[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int one = 0; one < 4; ++one) {
    unsigned found = __ballot_sync(0xffffffff, i < n && (x[min(i, n - 1)] & 3) == one);
    if (threadIdx.x % 32 == 0) atomicAdd(&some[one], __popc(found));
  }
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(&counts[threadIdx.x], some[threadIdx.x]);
}

KERNEL count_all_but_the_last(const int* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) atomicAdd(&counts[x[i] & 3], 1);
}

// --- what is not modelled, by name

KERNEL control_of_floats(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  while (v > 1.0f) v *= 0.5f;
  out[i] = v;
}

// Each warp the place of the largest of its numbers; some compare by a branch.
KERNEL place_of_largest(const float* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float best = x[i];
  int place = i;
  for (int step = 16; step > 0; step /= 2) {
    float other = __shfl_down_sync(0xffffffff, best, step);
    int there = __shfl_down_sync(0xffffffff, place, step);
    if (other > best || (other == best && there < place)) best = other, place = there;
  }
  if (i % 32 == 0) out[i / 32] = place;
}

KERNEL place_by_choices(const float* x, int* out, int n) {
  float best = x[0];
  int place = 0;
  for (int i = 1; i < n; i++) {
    float other = x[i];
    place = other > best ? i : place;
    best = fmaxf(best, other);
  }
  if (threadIdx.x == 0) out[0] = place;
}

KERNEL barrier_in_a_branch(const float* x, float* out, int n) {
  __shared__ float values[64];
  int i = threadIdx.x;
  values[i] = x[i];
  if (i < 32) __syncthreads();
  out[i] = values[i];
}

KERNEL unwritten(const float* x, float* out, int n) {
  __shared__ float values[64];
  if (threadIdx.x > 0) values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}

KERNEL beyond(const float* x, float* out, int n) {
  out[threadIdx.x] = x[threadIdx.x + 1];
}

KERNEL beyond_shared(const float* x, float* out, int n) {
  __shared__ float one[64], other[64];
  one[threadIdx.x] = x[threadIdx.x];
  other[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  int next = threadIdx.x + n / 64;
  out[threadIdx.x] = one[next] + other[threadIdx.x];
}

KERNEL two_blocks_store(const float* x, float* out, int n) {
  out[threadIdx.x] = x[threadIdx.x];
}

KERNEL bits(const float* x, float* out, int n) {
  out[threadIdx.x] = __int_as_float(__float_as_int(x[threadIdx.x]) & 0x7fffffff);
}

KERNEL punned(const float* x, float* out, int n) {
  __shared__ float values[64];
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = (float)((unsigned char*)values)[threadIdx.x * 4];
}

KERNEL on_the_stack(const float* x, float* out, int n) {
  volatile float values[4];
  values[threadIdx.x % 4] = x[threadIdx.x];
  out[threadIdx.x] = values[threadIdx.x % 4];
}
