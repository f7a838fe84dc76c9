// What a launch reaches otherwise than by a plain pointer: tables, lists, structs, variables, managed memory.
#include "common.h"

__constant__ float coefficients[4];
__device__ int counter = 3;
static __device__ int hidden_counter = 7;  // no name outside: its state must come along all the same

struct Node {
  Node* next;
  int value;
};

struct Pair {
  const float* values;
  float* out;
  int n;
  float4 scale;
};

__global__ void pointer_table(float* const* rows, float* out, int rows_count, int n) {
  int i = threadIdx.x;
  float sum = 0;
  for (int row = 0; i < n && row < rows_count; ++row) sum += rows[row][i];
  if (i < n) out[i] = sum;
}

__global__ void linked_list(Node* const* heads, int* out, int n) {
  int i = threadIdx.x, sum = 0;
  if (i >= n) return;
  for (const Node* each = heads[i]; each; each = each->next) sum += each->value;
  out[i] = sum;
}

__global__ void struct_argument(Pair pair, char tag) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pair.n) pair.out[i] = pair.values[i] * pair.scale.x + pair.scale.w + tag;
}

__global__ void variables(float* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = coefficients[i & 3] * static_cast<float>(counter);
  if (i == 0) atomicAdd(&counter, 5);
}

__global__ void static_variable(int* out) {
  if (threadIdx.x == 0) hidden_counter += 1;
  __syncthreads();
  out[threadIdx.x] = hidden_counter;
}

__global__ void managed(int* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = x[i] * 3 + i;
}

int main() {
  const int n = 64;
  std::vector<float*> rows;
  for (int row = 0; row < 5; ++row) rows.push_back(to_device(ramp(n, 0.5f * static_cast<float>(row + 1))));
  float* const* table = to_device(rows);
  float* out = zeros<float>(n);
  pointer_table<<<1, n>>>(table, out, 5, n);
  report("pointer_table", out, n * sizeof(float));

  const int lists = 8, nodes = 64;
  Node* pool = zeros<Node>(nodes);
  std::vector<Node> made(nodes);
  for (int i = 0; i < nodes; ++i) made[i] = {i + lists < nodes ? pool + i + lists : nullptr, i};
  CHECK(hipMemcpy(pool, made.data(), nodes * sizeof(Node), hipMemcpyHostToDevice));
  std::vector<Node*> heads;
  for (int i = 0; i < lists; ++i) heads.push_back(pool + i);
  int* sums = zeros<int>(lists);
  linked_list<<<1, n>>>(to_device(heads), sums, lists);
  report("linked_list", sums, lists * sizeof(int));

  float* scaled = zeros<float>(n);
  struct_argument<<<1, n>>>(Pair{rows[1], scaled, n, make_float4(2, 0, 0, 0.5f)}, 3);
  report("struct_argument", scaled, n * sizeof(float));

  const float given[4] = {1, 2, 4, 8};
  CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), given, sizeof given));
  float* products = zeros<float>(n);
  variables<<<1, n>>>(products, n);
  report("variables", products, n * sizeof(float));
  int now = 0;
  CHECK(hipMemcpyFromSymbol(&now, HIP_SYMBOL(counter), sizeof now));
  std::printf("counter %d\n", now);

  int* seen = zeros<int>(n);
  static_variable<<<1, n>>>(seen);
  report("static_variable", seen, n * sizeof(int));

  int* shared = nullptr;
  CHECK(hipMallocManaged(reinterpret_cast<void**>(&shared), n * sizeof(int)));
  for (int i = 0; i < n; ++i) shared[i] = i * i;
  managed<<<1, n>>>(shared, n);
  CHECK(hipDeviceSynchronize());
  print("managed", shared, shared, n * sizeof(int));
  return 0;
}
