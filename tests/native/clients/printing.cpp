// printing [how]: a kernel that prints, between what the host prints; and one that only waits afterwards.
//
// again: the kernel writes memory, too. late: it is launched twice before anybody waits. ring: there is room
// for two lines of it. thread: another thread waits for the device meanwhile. exit: nobody waits, so nothing
// of it is written.
#include <atomic>
#include <string>
#include <thread>

#include "client.h"

// A query has nothing written, so what is printed comes with the next call that does.
static void launch_and_end(CUfunction function, std::vector<void*> parameters) {
  launch(function, 1, 32, parameters);
  while (cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
}

int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "";
  CUcontext context = start();
  CUdeviceptr x = upload(ramp(4));
  const char* image = how == "again"   ? PTX_HEAD PTX_TELL("1")
                      : how == "other" ? PTX_HEAD PTX_TELL("3")
                                       : PTX_HEAD PTX_TELL("0");
  CUfunction tell = load(image, TELL), nothing = load(PTX_HEAD PTX_NOTHING, NOTHING);
  int count = 3, one = 1;
  if (how == "ring") CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 512));
  launch_and_end(tell, {&x, &one});  // not the one that is captured: what it prints is its own
  std::printf("first launched\n");
  if (how == "ring") CHECK(cuCtxSynchronize());
  std::atomic<bool> ended{false};
  std::thread waiter;
  if (how == "thread")
    waiter = std::thread([&] {
      cuCtxSetCurrent(context);
      while (!ended.load()) cuCtxSynchronize();
    });
  launch_and_end(tell, {&x, &count});
  std::printf("launched\n");
  if (how == "late") launch_and_end(tell, {&x, &one});
  launch_and_end(nothing, {&x, &one});
  std::printf("and another\n");
  if (how != "exit") CHECK(cuCtxSynchronize());
  std::printf("waited\n");
  ended.store(true);
  if (waiter.joinable()) waiter.join();
  if (how == "again") report("x", download<float>(x, 4));
}
