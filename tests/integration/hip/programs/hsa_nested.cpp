// Starts the HSA runtime twice and ends it twice; says after each end whether a shim of kerncap's is still
// live.
#include <dlfcn.h>
#include <hsa/hsa.h>

#include <cstdio>

int main() {
  auto live = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "kerncap_hip_live"));
  if (hsa_init() != HSA_STATUS_SUCCESS || hsa_init() != HSA_STATUS_SUCCESS) return 1;
  for (int end = 0; end < 2; ++end) {
    if (hsa_shut_down() != HSA_STATUS_SUCCESS) return 2;
    std::fprintf(stderr, "live: %d\n", live != nullptr ? live() : -1);
  }
}
