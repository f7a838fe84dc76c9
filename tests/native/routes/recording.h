// What the recording driver says about the calls that it got.
#ifndef KERNCAP_TESTS_ROUTES_RECORDING_H
#define KERNCAP_TESTS_ROUTES_RECORDING_H

#include <cstddef>
#include <cstdint>
#include <cstring>

struct Recorded {
  size_t calls;
  uint64_t arguments;  // a digest of their bytes
  int passes;          // held at the gate by the calling thread
};

// Digest of arguments by value; caller and callee compute the same.
inline uint64_t digest_bytes(uint64_t digest, const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i)
    digest = (digest ^ static_cast<const unsigned char*>(bytes)[i]) * 1099511628211ULL;
  return digest;
}

template <typename... Values>
uint64_t digest_of(const Values&... values) {
  uint64_t digest = 14695981039346656037ULL;
  ((digest = digest_bytes(digest, &values, sizeof values)), ...);
  return digest;
}

extern "C" {
// Of the hook in the order of hooks.def.
Recorded* dummy_record(size_t index);
void dummy_set_result(int result);
// Where the driver's answers to cuGetProcAddress point: 0 its exported functions, 1 functions of its
// own that it does not export.
void dummy_set_hidden(int hidden);
void dummy_set_missing(const char* name);  // cuGetProcAddress does not know this name
void dummy_set_observer(int (*passes)(void));
int dummy_last_status(void);
// Of the double in the shim (found by dlsym): passes that this thread holds.
int routes_passes(void);
}

#endif  // KERNCAP_TESTS_ROUTES_RECORDING_H
