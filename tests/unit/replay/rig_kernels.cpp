// Kernels for the stand-in driver that only replay's tests need; the others are the rig's own clients'.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "rig.h"

#define KERNEL(name) \
  extern "C" __attribute__((visibility("default"))) void rig_kernel_##name(const rig_launch* launch)

namespace {

uint64_t pointer(const rig_launch* launch, size_t index) {
  return rig_parameter<uint64_t>(launch, index);
}

void double_all(const rig_launch* launch, size_t n_at = 2) {
  uint32_t n = rig_parameter<uint32_t>(launch, n_at);
  auto* in = rig_array<float>(pointer(launch, 0), n);
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 2 * in[i];
}

}  // namespace

// racy(in, out, n): out = 2 * in, but every 97th run of a process leaves its last element as it was.
KERNEL(racy) {
  static unsigned runs = 0;
  uint32_t last = rig_parameter<uint32_t>(launch, 2) - 1;
  auto* out = rig_array<float>(pointer(launch, 1), last + 1);
  float before = out[last];
  double_all(launch);
  if (++runs % 97 == 0) out[last] = before;
}

// noisy(in, out, n): out = 2 * in, up to two units of the last place more.
KERNEL(noisy) {
  static uint32_t state = 12345;
  double_all(launch);
  uint32_t n = rig_parameter<uint32_t>(launch, 2);
  auto* bits = rig_array<uint32_t>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    bits[i] += (state >> 24) % 3;
  }
}

// follow(where): *where is a pointer to an int, which is counted up; the pointer is then moved on by one int.
KERNEL(follow) {
  auto* where = rig_array<uint64_t>(pointer(launch, 0), 1);
  ++*rig_array<int>(*where, 1);
  *where += sizeof(int);
}

// clocked(in, out, times, n): out = 2 * in; times are a clock's, of which only the low bytes differ from run
// to run. An image of edition 1 adds 1 to every element of out.
KERNEL(clocked) {
  static uint64_t now = uint64_t{0x5EED} << 32;
  double_all(launch, 3);
  uint32_t n = rig_parameter<uint32_t>(launch, 3);
  auto* times = rig_array<uint64_t>(pointer(launch, 2), n);
  auto* edition = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  for (uint32_t i = 0; i < n; ++i) times[i] = now += edition && *edition ? 100'100 : 1001;
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; edition && *edition && i < n; ++i) out[i] += 1;
}

// placed(in, out, where, n): out = 2 * in; where is the same in all runs of a process, and of no other. An
// image of edition 1 faults.
KERNEL(placed) {
  auto* edition = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  if (edition && *edition) rig_fail(700);
  double_all(launch, 3);
  uint32_t n = rig_parameter<uint32_t>(launch, 3);
  auto* where = rig_array<uint32_t>(pointer(launch, 2), n);
  for (uint32_t i = 0; i < n; ++i) where[i] = static_cast<uint32_t>(getpid()) + i;
}

// masked(x, mask, n): zeros where the mask says so, else what is there already.
KERNEL(masked) {
  uint32_t n = rig_parameter<uint32_t>(launch, 2);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  auto* mask = rig_array<uint8_t>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) x[i] = mask[i] ? 0 : x[i];
}

// steered(block, n): the block's first n words say where in the n words behind them a zero goes.
KERNEL(steered) {
  uint32_t n = rig_parameter<uint32_t>(launch, 1);
  uint64_t block = pointer(launch, 0);
  auto* where = rig_array<uint32_t>(block, n);
  for (uint32_t i = 0; i < n; ++i) *rig_array<float>(block + 4 * (n + uint64_t{where[i]}), 1) = 0;
}

// apart(in, block, n): three outputs with n words between them: 1e6 * in, up to two units of the last place
// more; in; and in once more, in an order that differs from run to run (but in images of edition 1).
KERNEL(apart) {
  static uint32_t state = 777;
  uint32_t n = rig_parameter<uint32_t>(launch, 2);
  auto* in = rig_array<float>(pointer(launch, 0), n);
  auto* block = rig_array<float>(pointer(launch, 1), 5 * n);
  for (uint32_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    float large = 1e6f * in[i];
    uint32_t bits;
    std::memcpy(&bits, &large, sizeof bits);
    bits += (state >> 24) % 3;
    std::memcpy(&block[i], &bits, sizeof bits);
    block[2 * n + i] = in[i];
  }
  auto* edition = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  uint32_t first = edition && *edition ? 0 : (state >> 12) % n, step = first ? 17 : 1;
  for (uint32_t i = 0; i < n; ++i) block[4 * n + i] = in[(first + i * step) % n];
}

// printing(in, n): writes nothing, and prints each element, as a device does when it is waited for. Image
// edition 1 is off by one in the last line, 2 prints 0, 1, 2, …, whatever it is given, 3 prints nothing, 4 a
// number that grows with each run, 5 more than a device keeps, and 6 eight elements, however many there are.
KERNEL(printing) {
  static unsigned runs = 0;
  uint32_t n = rig_parameter<uint32_t>(launch, 1);
  auto* in = rig_array<float>(pointer(launch, 0), n);
  auto* given = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  uint32_t edition = given ? *given : 0;
  if (edition == 6) n = 8;
  ++runs;
  for (uint32_t k = 0; k < n; ++k) {
    uint32_t i = runs % 2 ? k : n - 1 - k;  // no two runs need have the same order
    float shown = edition == 2 ? static_cast<float>(i) : edition == 4 ? runs : in[i];
    if (edition == 1 && i == n - 1) shown += 1;
    if (edition != 3) std::printf("element %u is %g\n", i, shown);
  }
  for (uint32_t i = 0; edition == 5 && i < 4000; ++i) std::printf("and more of it\n");
}

// telling(in, out, n): out = 2 * in, and prints its last element; image edition 1 prints another number, 2 a
// number that grows with each run, 3 nothing.
KERNEL(telling) {
  static unsigned runs = 0;
  double_all(launch);
  uint32_t last = rig_parameter<uint32_t>(launch, 2) - 1;
  auto* given = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  uint32_t edition = given ? *given : 0;
  float shown = rig_array<float>(pointer(launch, 1), last + 1)[last];
  if (edition == 1) shown += 1;
  if (edition == 2) shown = static_cast<float>(++runs);
  if (edition != 3) std::printf("last is %g\n", shown);
}

// through(out, function): calls one of two functions by its address, which has to be in the variable `table`;
// says which, and its address.
KERNEL(through) {
  auto* table = static_cast<uint64_t*>(rig_global(launch, "table", nullptr));
  auto* out = rig_array<uint64_t>(pointer(launch, 0), 2);
  uint64_t function = rig_parameter<uint64_t>(launch, 1);
  constexpr uint64_t first = 0x7F1000001000, second = first + 512;
  if (function != first && function != second) rig_fail(700);
  if (table == nullptr || (function != table[0] && function != table[1])) rig_fail(700);
  out[0] = function == first ? 7 : 8;
  out[1] = function;
}

// numbered(out, function): calls a function by its number, in an image whose variable `meant` says which that
// is.
KERNEL(numbered) {
  auto* meant = static_cast<uint64_t*>(rig_global(launch, "meant", nullptr));
  if (meant == nullptr) rig_fail(700);
  if (*meant == 0) rig_fail(700);
  *rig_array<uint64_t>(pointer(launch, 0), 1) = *meant;
}

// add(x, y, out, n) and off_by_one, which adds 1 more to the last element: what a Triton kernel is compiled
// to.
KERNEL(add) {
  uint32_t n = rig_parameter<uint32_t>(launch, 3);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  auto* y = rig_array<float>(pointer(launch, 1), n);
  auto* out = rig_array<float>(pointer(launch, 2), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

KERNEL(off_by_one) {
  rig_kernel_add(launch);
  uint32_t n = rig_parameter<uint32_t>(launch, 3);
  rig_array<float>(pointer(launch, 2), n)[n - 1] += 1;
}

// launched(x, y, out, n): how it was launched: grid, block, cluster, dynamic shared memory, parameters.
KERNEL(launched) {
  auto* out = rig_array<float>(pointer(launch, 2), 11);
  for (int i = 0; i < 3; ++i) {
    out[i] = static_cast<float>(launch->grid[i]);
    out[3 + i] = static_cast<float>(launch->block[i]);
    out[6 + i] = static_cast<float>(launch->cluster[i]);
  }
  out[9] = static_cast<float>(launch->shared_bytes);
  out[10] = static_cast<float>(launch->parameter_count);
}
