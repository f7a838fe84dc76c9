// The shim's own kernels: fingerprints of chunks, the search for pointers, copies, and the stop in a graph.
//
// snapshot_ptx.h beside it is what the shim holds; regenerate.sh makes it anew. Plain loads,
// integer arithmetic and 64-bit atomics only, so that PTX 6.4 for sm_52 holds them and every driver since
// CUDA 10 compiles them. The fingerprint is that of shims/common/hash.h.
typedef unsigned long long u64;

namespace {

__device__ void mix(u64 word, u64 position, u64& first, u64& second) {
  u64 x = word + (position + 1) * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 32;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 29;
  first += x;
  x *= 0xC4CEB9FE1A85EC53ULL;
  second += x ^ x >> 32;
}

}  // namespace

// One block of 256 threads a chunk; `out` has three words for each: two sums, and all words or'ed.
extern "C" __global__ void __launch_bounds__(256)
    kerncap_fingerprint(const unsigned char* base, u64 size, u64 chunk_bytes, u64 first_chunk, u64* out) {
  __shared__ u64 sums[3][256];
  u64 start = (first_chunk + blockIdx.x) * chunk_bytes;
  u64 length = size - start < chunk_bytes ? size - start : chunk_bytes;
  const u64* words = reinterpret_cast<const u64*>(base + start);
  u64 count = length / 8, first = 0, second = 0, any = 0;
  for (u64 i = threadIdx.x; i < count; i += 256) {
    u64 word = words[i];
    mix(word, i, first, second);
    any |= word;
  }
  if (threadIdx.x == 0 && length % 8 != 0) {
    u64 word = 0;
    for (u64 i = 0; i < length % 8; ++i) word |= static_cast<u64>(base[start + count * 8 + i]) << (i * 8);
    mix(word, count, first, second);
    any |= word;
  }
  sums[0][threadIdx.x] = first;
  sums[1][threadIdx.x] = second;
  sums[2][threadIdx.x] = any;
  __syncthreads();
  for (unsigned half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
      sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
      sums[2][threadIdx.x] |= sums[2][threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x < 3) out[blockIdx.x * 3ULL + threadIdx.x] = sums[threadIdx.x][0];
}

// `table`: `intervals` disjoint (base, end), sorted. sources[i] becomes the smallest address of a word
// that leads into interval i.
extern "C" __global__ void __launch_bounds__(256)
    kerncap_scan(const u64* words, u64 count, const u64* table, u64 intervals, u64* sources) {
  u64 lowest = table[0], span = table[intervals * 2 - 1] - lowest;
  u64 step = static_cast<u64>(gridDim.x) * 256;
  for (u64 i = static_cast<u64>(blockIdx.x) * 256 + threadIdx.x; i < count; i += step) {
    u64 word = words[i];
    if (word - lowest >= span) continue;
    u64 low = 0, high = intervals;
    while (low < high) {
      u64 middle = (low + high) / 2;
      if (table[middle * 2 + 1] <= word)
        low = middle + 1;
      else
        high = middle;
    }
    if (low < intervals && table[low * 2] <= word) atomicMin(&sources[low], reinterpret_cast<u64>(&words[i]));
  }
}

// Of or to memory that only kernels reach.
extern "C" __global__ void __launch_bounds__(256)
    kerncap_copy(unsigned char* to, const unsigned char* from, u64 size) {
  u64 first = static_cast<u64>(blockIdx.x) * 256 + threadIdx.x, step = static_cast<u64>(gridDim.x) * 256;
  bool is_aligned = (reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from)) % 8 == 0;
  u64 words = is_aligned ? size / 8 : 0;
  for (u64 i = first; i < words; i += step)
    reinterpret_cast<u64*>(to)[i] = reinterpret_cast<const u64*>(from)[i];
  for (u64 i = words * 8 + first; i < size; i += step) to[i] = from[i];
}

// In the place of a kernel of a graph (shims/cuda/graph_stops.h), one thread: it tells the host which one,
// and waits for it. `words` are in the host's memory: how often one arrived, at which stop, how often one may
// go on.
extern "C" __global__ void __launch_bounds__(1) kerncap_stop(volatile u64* words, u64 stop) {
  u64 arrival = words[0] + 1;
  words[1] = stop;
  __threadfence_system();
  words[0] = arrival;
  while (words[2] < arrival) {
  }
  __threadfence_system();
}
