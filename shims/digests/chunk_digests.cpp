// BLAKE3 of chunks of 256 KiB: sixteen of a chunk's kibibytes at a time, one in each lane of a vector.
//
// A chunk is a whole tree: 256 leaves of 1 KiB with 16 blocks each, and eight levels of parents. One call
// hashes many chunks: a call for each would take turns at Python's lock. Source: the BLAKE3 paper, 2.1 to 2.4
// (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020).
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

typedef uint32_t Lanes __attribute__((vector_size(64)));

constexpr size_t kLanes = 16;
constexpr size_t kBlockBytes = 64, kLeafBytes = 1024, kChunkBytes = 256 << 10;
constexpr size_t kLeaves = kChunkBytes / kLeafBytes, kDigestBytes = 32;
constexpr uint32_t kLeafStart = 1, kLeafEnd = 2, kParent = 4, kRoot = 8;

constexpr uint32_t kStart[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
constexpr uint8_t kOrder[7][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                   {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
                                   {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
                                   {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
                                   {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
                                   {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
                                   {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

// Into the one function that is compiled for AVX-512.
#define KERNCAP_INLINED inline __attribute__((always_inline))

KERNCAP_INLINED Lanes rotated(Lanes x, int by) {
  return (x >> by) | (x << (32 - by));
}

KERNCAP_INLINED void mix(Lanes* v, int a, int b, int c, int d, Lanes x, Lanes y) {
  v[a] += v[b] + x;
  v[d] = rotated(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotated(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = rotated(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = rotated(v[b] ^ v[c], 7);
}

// One block in each lane; `value` are the chaining values before it and after it.
KERNCAP_INLINED void compress(Lanes* value, const Lanes* words, Lanes counter, uint32_t flags) {
  const Lanes none = {};
  Lanes v[16] = {value[0],
                 value[1],
                 value[2],
                 value[3],
                 value[4],
                 value[5],
                 value[6],
                 value[7],
                 none + kStart[0],
                 none + kStart[1],
                 none + kStart[2],
                 none + kStart[3],
                 counter,
                 none,
                 none + uint32_t(kBlockBytes),
                 none + flags};
#pragma GCC unroll 7
  for (int round = 0; round < 7; ++round) {
    const uint8_t* o = kOrder[round];
    mix(v, 0, 4, 8, 12, words[o[0]], words[o[1]]);
    mix(v, 1, 5, 9, 13, words[o[2]], words[o[3]]);
    mix(v, 2, 6, 10, 14, words[o[4]], words[o[5]]);
    mix(v, 3, 7, 11, 15, words[o[6]], words[o[7]]);
    mix(v, 0, 5, 10, 15, words[o[8]], words[o[9]]);
    mix(v, 1, 6, 11, 12, words[o[10]], words[o[11]]);
    mix(v, 2, 7, 8, 13, words[o[12]], words[o[13]]);
    mix(v, 3, 4, 9, 14, words[o[14]], words[o[15]]);
  }
  for (int i = 0; i < 8; ++i) value[i] = v[i] ^ v[i + 8];
}

// words[i] gets word i of sixteen blocks that are `stride` bytes apart.
KERNCAP_INLINED void transpose(Lanes* words, const uint8_t* blocks, size_t stride) {
  Lanes a[16], b[16];
  for (size_t i = 0; i < 16; ++i) std::memcpy(&a[i], blocks + i * stride, kBlockBytes);
  // Pairs of rows, then fours, within each quarter of a vector; then the quarters.
  const Lanes one_low = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29};
  const Lanes one_high = {2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31};
  for (int i = 0; i < 16; i += 2) {
    b[i] = __builtin_shuffle(a[i], a[i + 1], one_low);
    b[i + 1] = __builtin_shuffle(a[i], a[i + 1], one_high);
  }
  const Lanes two_low = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
  const Lanes two_high = {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
  for (int i = 0; i < 16; i += 4)
    for (int half = 0; half < 2; ++half) {
      a[i + 2 * half] = __builtin_shuffle(b[i + half], b[i + 2 + half], two_low);
      a[i + 2 * half + 1] = __builtin_shuffle(b[i + half], b[i + 2 + half], two_high);
    }
  const Lanes even = {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27};
  const Lanes odd = {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31};
  for (int i = 0; i < 16; i += 8)
    for (int word = i; word < i + 4; ++word) {
      b[word] = __builtin_shuffle(a[word], a[word + 4], even);
      b[word + 4] = __builtin_shuffle(a[word], a[word + 4], odd);
    }
  const Lanes low = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
  const Lanes high = {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31};
  for (int word = 0; word < 8; ++word) {
    words[word] = __builtin_shuffle(b[word], b[word + 8], low);
    words[word + 8] = __builtin_shuffle(b[word], b[word + 8], high);
  }
}

KERNCAP_INLINED void begin(Lanes* value) {
  for (int i = 0; i < 8; ++i) value[i] = Lanes{} + kStart[i];
}

KERNCAP_INLINED void put(uint32_t (*out)[8], const Lanes* value, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 8; ++i) out[lane][i] = value[i][lane];
}

KERNCAP_INLINED void digest_of(const uint8_t* chunk, uint8_t* digest) {
  uint32_t values[kLeaves][8];
  Lanes words[16], value[8];
  const Lanes numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (size_t leaf = 0; leaf < kLeaves; leaf += kLanes) {
    begin(value);
    for (size_t at = 0; at < kLeafBytes; at += kBlockBytes) {
      transpose(words, chunk + leaf * kLeafBytes + at, kLeafBytes);
      const uint32_t start = at == 0 ? kLeafStart : 0, end = at + kBlockBytes == kLeafBytes ? kLeafEnd : 0;
      compress(value, words, numbers + uint32_t(leaf), start | end);
    }
    put(values + leaf, value, kLanes);
  }
  for (size_t parents = kLeaves / 2; parents; parents /= 2)
    for (size_t first = 0; first < parents; first += kLanes) {
      begin(value);
      transpose(words, reinterpret_cast<const uint8_t*>(values[2 * first]), kBlockBytes);
      compress(value, words, Lanes{}, kParent | (parents == 1 ? kRoot : 0));
      put(values + first, value, parents < kLanes ? parents : kLanes);
    }
  std::memcpy(digest, values[0], kDigestBytes);
}

bool is_zero(const uint8_t* chunk) {
  return chunk[0] == 0 && std::memcmp(chunk, chunk + 1, kChunkBytes - 1) == 0;
}

}  // namespace

// Whether this machine can run what follows. With narrower vectors it would be slower than a library.
extern "C" __attribute__((visibility("default"))) int kerncap_has_chunk_digests() {
  return __builtin_cpu_supports("avx512f") != 0;
}

// The digests of `count` chunks that follow each other. With `skip_zeros`, those of zeros get 32 zeros.
extern "C" __attribute__((visibility("default"), target("avx512f"))) void kerncap_chunk_digests(
    const uint8_t* chunks, size_t count, int skip_zeros, uint8_t* digests) {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* chunk = chunks + i * kChunkBytes;
    if (skip_zeros && is_zero(chunk)) {
      std::memset(digests + i * kDigestBytes, 0, kDigestBytes);
    } else {
      digest_of(chunk, digests + i * kDigestBytes);
    }
  }
}
