// Programs that go wrong, or that a capture could make go wrong. The status of what the program did
// itself is printed.
#include <signal.h>

#include <string>

#include "client.h"
#include "rig.h"

namespace {

constexpr int n = 1024;

const char* name(CUresult status) {
  const char* text = nullptr;
  cuGetErrorName(status, &text);
  return text ? text : "?";
}

struct Program {
  CUfunction scale = load(PTX_HEAD PTX_SCALE PTX_STRIKE, SCALE), strike;
  CUdeviceptr x = upload(ramp(n)), out = allocate(n * sizeof(float));
  float s = 2;
  int count = n;

  Program() {
    CUmodule module;
    CHECK(cuFuncGetModule(&module, scale));
    CHECK(cuModuleGetFunction(&strike, module, STRIKE));
  }

  void ordinary(int times = 1) {
    for (int i = 0; i < times; ++i) launch(scale, 4, 256, {&x, &s, &count});
  }
};

// Good launches, then one that reads where nothing is.
int fault(Program& p) {
  p.ordinary(3);
  CUdeviceptr good = upload(ramp(16)), bad = 0x10;
  launch(p.strike, 4, 256, {&good, &p.out, &p.count});
  launch(p.strike, 4, 256, {&bad, &p.out, &p.count});
  CUresult status = cuCtxSynchronize();
  std::printf("synchronize %s\n", name(status));
  std::printf("afterwards %s\n", name(cuMemcpyDtoH(&bad, p.x, 8)));
  return 3;
}

// The driver refuses the launch itself.
int refused(Program& p) {
  void* parameters[] = {&p.x, &p.s, &p.count};
  std::printf("launch %s\n",
              name(cuLaunchKernel(p.scale, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr)));
  p.ordinary();
  report("x", download<float>(p.x, n));
  return 0;
}

// From here on nobody can allocate on the device.
int full(Program& p) {
  rig_control("OOM_AFTER", 0);
  p.ordinary(2);
  CUdeviceptr more;
  std::printf("allocation %s\n", name(cuMemAlloc(&more, 1 << 20)));
  report("x", download<float>(p.x, n));
  return 0;
}

// Copies fail from the next one on; the program makes none until it has put that right.
int no_copies(Program& p) {
  rig_control("COPY_ERROR_IN", 0);
  p.ordinary(2);
  CHECK(cuCtxSynchronize());
  rig_control("COPY_ERROR_AT", -1);
  report("x", download<float>(p.x, n));
  return 0;
}

// A copy fails in the middle of what a capture copies.
int some_copies(Program& p, int good) {
  rig_control("COPY_ERROR_IN", good);
  p.ordinary(2);
  CHECK(cuCtxSynchronize());
  rig_control("COPY_ERROR_AT", -1);
  report("x", download<float>(p.x, n));
  return 0;
}

int asynchronous(Program& p, int error) {
  p.ordinary(2);
  CHECK(cuCtxSynchronize());
  rig_control("FAULT", error);
  rig_control("FAULT_IN", 0);
  p.ordinary();
  std::printf("synchronize %s\n", name(cuCtxSynchronize()));
  return 4;
}

// The device is reset between two launches: whatever was made on it is gone, and the context that comes
// next may have the old one's handle.
int reset(Program& p) {
  p.ordinary();
  CHECK(cuCtxSynchronize());
  report("x", download<float>(p.x, n));
  CHECK(cuDevicePrimaryCtxReset(0));
  start();
  Program again;
  // The addresses of what a capture had on the device before may come back here.
  std::vector<CUdeviceptr> more;
  for (int i = 0; i < 64; ++i) more.push_back(upload(ramp(n, static_cast<float>(i + 1))));
  again.ordinary(3);
  CHECK(cuCtxSynchronize());
  report("x", download<float>(again.x, n));
  for (CUdeviceptr one : more) report("more", download<float>(one, n));
  return 0;
}

int hang() {
  CUfunction forever = load(PTX_HEAD PTX_FOREVER, FOREVER);
  CUdeviceptr x = upload(std::vector<int>{0});
  launch(forever, 1, 1, {&x});
  std::puts("launched");
  std::fflush(stdout);
  cuCtxSynchronize();
  return 0;
}

// The program dies just after a launch.
int killed(Program& p, int signal) {
  p.ordinary();
  CHECK(cuCtxSynchronize());
  std::puts("launched");
  std::fflush(stdout);
  raise(signal);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  int number = argc > 2 ? std::atoi(argv[2]) : 0;
  start();
  if (what == "hang") return hang();
  Program p;
  if (what == "fault") return fault(p);
  if (what == "refused") return refused(p);
  if (what == "reset") return reset(p);
  if (what == "full") return full(p);
  if (what == "no_copies") return no_copies(p);
  if (what == "some_copies") return some_copies(p, number);
  if (what == "asynchronous") return asynchronous(p, number ? number : 719);
  if (what == "killed") return killed(p, number ? number : SIGKILL);
  return 64;
}
