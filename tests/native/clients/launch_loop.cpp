// The cost of a launch that is not chosen: ns a launch, and the least of several rounds. Options:
// launches a round, rounds. One JSON object on stdout.
#include <algorithm>
#include <chrono>

#include "client.h"

int main(int argc, char** argv) {
  int launches = argc > 1 ? std::atoi(argv[1]) : 20000, rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  start();
  CUfunction nothing = load(PTX_HEAD PTX_NOTHING, NOTHING);
  unsigned n = 256;
  CUdeviceptr x = allocate(n * sizeof(float));
  void* parameters[] = {&x, &n};
  std::vector<double> times;
  for (int round = 0; round <= rounds; ++round) {  // the first one warms up
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i)
      CHECK(cuLaunchKernel(nothing, 1, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
    auto end = std::chrono::steady_clock::now();
    CHECK(cuCtxSynchronize());
    if (round) times.push_back(std::chrono::duration<double, std::nano>(end - begin).count() / launches);
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"launches\": %d, \"rounds\": %d, \"least_ns\": %.1f, \"median_ns\": %.1f}\n", launches,
              rounds, times.front(), times[times.size() / 2]);
  return 0;
}
