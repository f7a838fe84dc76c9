// Eight threads with streams of their own: each allocates, copies, launches `mix` and frees. What each
// computes does not depend on the others, so the output is always the same. With the option "own" each
// thread loads the image for itself, so that there are eight kernels of one name.
#include <string>
#include <thread>

#include "client.h"

namespace {

constexpr int kThreads = 8, kRounds = 12, kValues = 2048;

CUcontext context;
std::vector<uint64_t> digests(kThreads);

// Invariant: between two launches on its stream all values of a block are equal, so a snapshot that
// was torn shows it.
void work(int index, CUfunction mix) {
  CHECK(cuCtxSetCurrent(context));
  if (!mix) mix = load(PTX_HEAD PTX_MIX, MIX);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, index % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  std::vector<int> host(kValues, index + 1);
  CUdeviceptr kept = allocate(kValues * sizeof(int));
  CHECK(cuMemcpyHtoDAsync(kept, host.data(), kValues * sizeof(int), stream));
  int n = kValues, steps = 3;
  for (int round = 0; round < kRounds; ++round) {
    CUdeviceptr passing;
    if (index % 3 == 2)
      CHECK(cuMemAllocAsync(&passing, kValues * sizeof(int), stream));
    else
      passing = allocate(kValues * sizeof(int));
    CHECK(cuMemcpyDtoDAsync(passing, kept, kValues * sizeof(int), stream));
    launch(mix, 8, 256, {&passing, &n, &steps}, stream);
    CHECK(cuMemcpyDtoDAsync(kept, passing, kValues * sizeof(int), stream));
    if (index % 3 == 2) {
      CHECK(cuMemFreeAsync(passing, stream));
    } else {
      CHECK(cuStreamSynchronize(stream));
      CHECK(cuMemFree(passing));
    }
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(host.data(), kept, kValues * sizeof(int)));
  digests[static_cast<size_t>(index)] = digest(host.data(), host.size() * sizeof(int));
}

}  // namespace

int main(int argc, char** argv) {
  context = start();
  bool own = argc > 1 && std::string(argv[1]) == "own";
  CUfunction mix = own ? nullptr : load(PTX_HEAD PTX_MIX, MIX);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i, mix);
  for (std::thread& thread : threads) thread.join();
  report("digests", digests);
  return 0;
}
