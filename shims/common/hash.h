// Fingerprints of chunks: two 64-bit sums over words mixed with their position.
//
// Sums, so that a device adds the words up in any order; shims/cuda/kernels/snapshot.cu computes the
// same. A change of one word always shows: for a given position the mixing is a bijection. They
// serve within one session, and digests of them in the file of `kerncap trace`.
#ifndef KERNCAP_COMMON_HASH_H
#define KERNCAP_COMMON_HASH_H

#include <cstdint>
#include <cstring>

namespace kerncap {

struct Fingerprint {
  uint64_t first = 0, second = 0;
  uint64_t any = 0;  // all words or'ed: zero for a chunk of zeros

  bool operator==(const Fingerprint& other) const noexcept {
    return first == other.first && second == other.second && any == other.any;
  }
  bool operator!=(const Fingerprint& other) const noexcept { return !(*this == other); }
};

namespace mixing {
constexpr uint64_t step = 0x9E3779B97F4A7C15ULL;
constexpr uint64_t multiplier = 0xFF51AFD7ED558CCDULL;
constexpr uint64_t multiplier2 = 0xC4CEB9FE1A85EC53ULL;

inline void add(Fingerprint& print, uint64_t word, uint64_t position) noexcept {
  uint64_t x = word + (position + 1) * step;
  x ^= x >> 32;
  x *= multiplier;
  x ^= x >> 29;
  print.first += x;
  x *= multiplier2;
  print.second += x ^ x >> 32;
  print.any |= word;
}
}  // namespace mixing

// Of `count` bytes at any alignment; the last word is filled up with zeros.
inline Fingerprint fingerprint(const uint8_t* bytes, uint64_t count) noexcept {
  Fingerprint print;
  uint64_t words = count / 8;
  for (uint64_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + i * 8, 8);
    mixing::add(print, word, i);
  }
  if (count % 8 != 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + words * 8, count % 8);
    mixing::add(print, word, words);
  }
  return print;
}

}  // namespace kerncap

#endif  // KERNCAP_COMMON_HASH_H
