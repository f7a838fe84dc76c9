// Small cases, by name: what a launch reads and writes. Prints digests of what came out.
#include <string>

#include "client.h"

namespace {

constexpr int n = 1000;

void in_place() {
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr x = upload(ramp(n));
  float s = 1.5f;
  int count = n;
  launch(scale, 4, 256, {&x, &s, &count});
  report("x", download<float>(x, n));
}

void histogram() {
  CUfunction histogram = load(PTX_HEAD PTX_HISTOGRAM, HISTOGRAM);
  std::vector<int> values(n), counts(16, 3);
  for (int i = 0; i < n; ++i) values[static_cast<size_t>(i)] = i * i % 16;
  CUdeviceptr in = upload(values), out = upload(counts);
  int count = n;
  launch(histogram, 4, 256, {&in, &out, &count});
  report("counts", download<int>(out, 16));
}

void nothing() {
  CUfunction nothing = load(PTX_HEAD PTX_NOTHING, NOTHING);
  CUdeviceptr x = upload(ramp(n));
  int count = n;
  launch(nothing, 4, 256, {&x, &count});
  report("x", download<float>(x, n));
}

// The allocation has room for what is written too much: nothing faults.
void past_the_end() {
  CUfunction past = load(PTX_HEAD PTX_PAST_THE_END, PAST_THE_END);
  CUdeviceptr x = upload(ramp(n + 64));
  int count = n;
  launch(past, 4, 256, {&x, &count});
  report("x", download<float>(x, n + 64));
}

void shared() {
  CUfunction reverse = load(PTX_HEAD PTX_REVERSE, REVERSE);
  std::vector<int> values(20480);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  CUdeviceptr x = upload(values);
  int count = static_cast<int>(values.size());
  unsigned bytes = 1024 * sizeof(int), more = 100 * 1024;
  launch(reverse, 20, 1024, {&x, &count}, nullptr, bytes);
  // More than 48 KiB only after it was asked for, and a replay has to ask too.
  CHECK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(more)));
  launch(reverse, 20, 512, {&x, &count}, nullptr, more);
  report("x", download<int>(x, values.size()));
}

void no_arguments() {
  CUmodule module;
  CUfunction tick = load(PTX_HEAD PTX_TICK("7", "5"), TICK, &module);
  CUdeviceptr total;
  size_t bytes;
  CHECK(cuModuleGetGlobal(&total, &bytes, module, "total"));
  for (int i = 0; i < 3; ++i) launch(tick, 1, 1, {});
  report("total", download<int>(total, 1));
}

// One kernel, many launches: each sees what the one before left.
void many() {
  CUfunction increment = load(PTX_HEAD PTX_INCREMENT, INCREMENT);
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr x = upload(std::vector<int>{0}), y = upload(ramp(n));
  float s = 1.25f;
  int count = n;
  for (int i = 0; i < 10; ++i) {
    launch(increment, 1, 1, {&x});
    launch(scale, 4, 256, {&y, &s, &count});
  }
  report("x", download<int>(x, 1));
  report("y", download<float>(y, n));
}

void noisy() {
  CUfunction noisy = load(PTX_HEAD PTX_NOISY_SUM, NOISY_SUM);
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i * 37 % 4096 + 1);
  CUdeviceptr in = upload(values), out = allocate(4);
  int count = 4096;
  launch(noisy, 1, 256, {&in, &out, &count});
  CHECK(cuCtxSynchronize());
  std::puts("done");
}

void nan() {
  CUfunction make_nan = load(PTX_HEAD PTX_MAKE_NAN, MAKE_NAN);
  CUfunction scale = load(PTX_HEAD PTX_SCALE, SCALE);
  CUdeviceptr x = upload(ramp(n));
  float s = 2;
  int count = n;
  launch(scale, 4, 256, {&x, &s, &count});
  launch(make_nan, 4, 256, {&x, &count});
  launch(scale, 4, 256, {&x, &s, &count});
  report("x", download<float>(x, n));
}

void racy() {
  CUfunction off = load(PTX_HEAD PTX_SOMETIMES_OFF, SOMETIMES_OFF);
  CUdeviceptr in = upload(ramp(n)), out = allocate(n * sizeof(float));
  int count = n;
  for (int i = 0; i < 60; ++i) launch(off, 4, 256, {&in, &out, &count});
  CHECK(cuCtxSynchronize());
  std::puts("done");
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc > 1 ? argv[1] : "";
  start();
  if (what == "in_place")
    in_place();
  else if (what == "histogram")
    histogram();
  else if (what == "nothing")
    nothing();
  else if (what == "past_the_end")
    past_the_end();
  else if (what == "shared")
    shared();
  else if (what == "no_arguments")
    no_arguments();
  else if (what == "many")
    many();
  else if (what == "noisy")
    noisy();
  else if (what == "nan")
    nan();
  else if (what == "racy")
    racy();
  else
    return 64;
  return 0;
}
