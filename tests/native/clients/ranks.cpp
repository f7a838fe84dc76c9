// Ranks as processes, each with a window that all others import: ranks COUNT WHAT [WAY]. A window has a
// rank's values, room for a neighbour's, and flags. WAY is "vmm" or "ipc"; WHAT, in two rounds:
//   reduce   each tells all others that its values are there, waits for all, and adds them up
//   ring     each puts its values into the next rank's room, raises a flag there, and waits for its own
//   twice    as reduce, but each flag has two values in one round
//   turns    each adds up its share for all; signals are taken back
//   sum      adds up all windows, without flags
//   alone    sum, where rank 1 makes no launch before the others have ended
//   leaves   sum, where rank 1 is killed after the first round
//   dies     sum, where rank 1 is killed by its launch
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "client.h"
#include "shared_window.h"

namespace {

constexpr int n = 3000, rounds = 2, most = 48;

struct Shared {
  struct Rank {
    WindowHandle handle;
    std::atomic<int> steps;
    uint64_t digests[rounds];
  } ranks[most];
}* shared;

int count = 2;

// All ranks but `without` have come to this step; one that was killed has come to all.
void wait_for_all(int rank, int step, int without = -1) {
  shared->ranks[rank].steps = step;
  for (int i = 0; i < count; ++i)
    while (i != without && shared->ranks[i].steps < step) std::this_thread::yield();
}

int run(int rank, const std::string& what, const std::string& way) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  CHECK(cuInit(0));
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  const int device = rank % devices;
  start(device);
  std::vector<CUdeviceptr> windows(static_cast<size_t>(count));
  windows[static_cast<size_t>(rank)] = make_window(way, device, &shared->ranks[rank].handle);
  wait_for_all(rank, 1);
  for (int i = 0; i < count; ++i)
    if (i != rank) windows[static_cast<size_t>(i)] = import_window(way, device, shared->ranks[i].handle);
  const char* image = PTX_HEAD PTX_REDUCE PTX_RING PTX_MEET_TWICE PTX_TAKE_TURNS PTX_SUM_OF_WINDOWS;
  const char* name = what == "reduce"  ? REDUCE
                     : what == "ring"  ? RING
                     : what == "twice" ? MEET_TWICE
                     : what == "turns" ? TAKE_TURNS
                                       : SUM_OF_WINDOWS;
  CUfunction function = load(image, name);
  CUdeviceptr table = upload(windows), out = allocate(n * sizeof(float));
  CUdeviceptr mine = windows[static_cast<size_t>(rank)],
              next = windows[static_cast<size_t>((rank + 1) % count)];
  for (int round = 0; round < rounds; ++round) {
    CHECK(cuMemcpyHtoD(mine, ramp(n, static_cast<float>(rank + 1 + 10 * round)).data(), n * sizeof(float)));
    CHECK(cuMemsetD8(out, 0, n * sizeof(float)));
    CHECK(cuCtxSynchronize());
    const bool is_alone = what == "alone" && round == 0;
    wait_for_all(rank, 2 + 3 * round);
    if (is_alone && rank == 1) wait_for_all(rank, 3 + 3 * round);
    if (what == "leaves" && rank == 1 && round == 1) {
      shared->ranks[rank].steps = 100;
      kill(getpid(), SIGKILL);
    }
    int items = n, number = round + 1, kills = what == "dies" && rank == 1;
    if (kills) shared->ranks[rank].steps = 100;
    if (what == "ring")
      launch(function, 12, 256, {&mine, &next, &out, &items, &number});
    else
      launch(function, 12, 256, {&table, &out, &rank, &count, &items, &number, &kills});
    CHECK(cuCtxSynchronize());
    wait_for_all(rank, 3 + 3 * round, is_alone ? 1 : -1);
    wait_for_all(rank, 4 + 3 * round);
    shared->ranks[rank].digests[round] = digest(download<float>(out, n).data(), n * sizeof(float));
  }
  wait_for_all(rank, 100);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  count = argc > 1 ? std::atoi(argv[1]) : 2;
  std::string what = argc > 2 ? argv[2] : "reduce", way = argc > 3 ? argv[3] : "vmm";
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED && count >= 2 && count <= most);
  shared = static_cast<Shared*>(memory);
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) return run(rank, what, way);
  }
  for (int rank = 0; rank < count; ++rank) {
    int status = 0;
    waitpid(children[static_cast<size_t>(rank)], &status, 0);
    std::printf("rank %d:", rank);
    for (uint64_t digest : shared->ranks[rank].digests) std::printf(" %016" PRIx64, digest);
    std::printf(" %s %d\n", WIFEXITED(status) ? "status" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  }
  return 0;
}
