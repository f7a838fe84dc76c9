// The host functions behind the clients' kernels. Loaded by the clients and by the replay worker
// (KERNCAP_RIG_KERNELS).
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "rig.h"

#define KERNEL(name) \
  extern "C" __attribute__((visibility("default"))) void rig_kernel_##name(const rig_launch* launch)

namespace {

uint64_t pointer(const rig_launch* launch, size_t index) {
  return rig_parameter<uint64_t>(launch, index);
}
uint32_t number(const rig_launch* launch, size_t index) {
  return rig_parameter<uint32_t>(launch, index);
}

// Which edition of a kernel an image holds: its variable rig_variant. 0 if it has none.
uint32_t variant(const rig_launch* launch) {
  auto* value = static_cast<uint32_t*>(rig_global(launch, "rig_variant", nullptr));
  return value ? *value : 0;
}

uint32_t threads(const rig_launch* launch) {
  return launch->grid[0] * launch->block[0];
}

float one_bit_off(float value) {
  return std::nextafter(value, value + 1.0f);
}

}  // namespace

// --- conditions of graphs -------------------------------------------------------------------------

// decide(cudaGraphConditionalHandle, const int* value)
KERNEL(_Z6decideyPKi) {
  rig_set_condition(pointer(launch, 0), static_cast<unsigned>(*rig_array<int>(pointer(launch, 1), 1)));
}

// turn(cudaGraphConditionalHandle, int* left): another turn as long as any is left
KERNEL(_Z4turnyPi) {
  rig_set_condition(pointer(launch, 0), --*rig_array<int>(pointer(launch, 1), 1) > 0);
}

// --- values -------------------------------------------------------------------------------------

// vector_add(const float*, const float*, float*, int). Editions: 1 does nothing, 2 writes one element
// past the end, 3 is off by one bit, 4 writes one element 100 MiB before the others too.
KERNEL(_Z10vector_addPKfS0_Pfi) {
  uint32_t n = number(launch, 3), edition = variant(launch);
  if (n > threads(launch)) n = threads(launch);
  auto* a = rig_array<float>(pointer(launch, 0), n);
  auto* b = rig_array<float>(pointer(launch, 1), n);
  if (edition == 1) return;
  auto* out = rig_array<float>(pointer(launch, 2), edition == 2 ? n + 1 : n);
  for (uint32_t i = 0; i < n; ++i) out[i] = edition == 3 ? one_bit_off(a[i] + b[i]) : a[i] + b[i];
  if (edition == 2) out[n] = 1e30f;
  if (edition == 4) *rig_array<float>(pointer(launch, 2) - (100u << 20), 1) = 1e30f;
}

namespace {

void add(const rig_launch* launch) {
  uint32_t n = number(launch, 3);
  auto* a = rig_array<float>(pointer(launch, 0), n);
  auto* b = rig_array<float>(pointer(launch, 1), n);
  auto* out = rig_array<float>(pointer(launch, 2), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

}  // namespace

// ncclDevKernel_AllReduce_Sum_f32_RING_LL(const float*, const float*, float*, int): only the name is NCCL's
KERNEL(_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLPKfS0_Pfi) {
  add(launch);
}
// void lsa_sum<float>(const float*, const float*, float*, int, const ncclDevComm*)
KERNEL(_Z7lsa_sumIfEvPKfS1_PfiPK11ncclDevComm) {
  add(launch);
}

// scale_in_place(float*, float, int)
KERNEL(_Z14scale_in_placePffi) {
  uint32_t n = number(launch, 2);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  float s = rig_parameter<float>(launch, 1);
  for (uint32_t i = 0; i < n; ++i) x[i] *= s;
}

// histogram(const int*, int*, int)
KERNEL(_Z9histogramPKiPii) {
  uint32_t n = number(launch, 2);
  auto* values = rig_array<int>(pointer(launch, 0), n);
  for (uint32_t i = 0; i < n; ++i)
    ++*rig_array<int>(pointer(launch, 1) + 4u * static_cast<uint32_t>(values[i]), 1);
}

// tell(float*, int): prints. Editions: 1 writes, too; 2 prints another line, 3 something else in each process
KERNEL(_Z4tellPfi) {
  uint32_t n = number(launch, 1), edition = variant(launch);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  for (uint32_t i = 0; i < n; ++i)
    rig_print(
        ("element " + std::to_string(i) + " is " + std::to_string(static_cast<int>(x[i])) + "\n").c_str());
  if (edition == 1) x[0] += 1;
  if (edition == 2) rig_print("and more\n");
  if (edition == 3) rig_print((std::to_string(getpid()) + "\n").c_str());
}

// nothing(float*, int)
KERNEL(_Z7nothingPfi) {
  (void)launch;
}

// make_list(int**, int): with memory of the kernels' heap
KERNEL(_Z9make_listPPii) {
  uint32_t n = number(launch, 1);
  uint64_t made = rig_heap(launch, n * sizeof(int));
  *rig_array<uint64_t>(pointer(launch, 0), 1) = made;
  auto* values = rig_array<int>(made, n);
  for (uint32_t i = 0; i < n; ++i) values[i] = static_cast<int>(i);
}

// use_list(int**, int*, int)
KERNEL(_Z8use_listPPiS_i) {
  uint32_t n = number(launch, 2);
  auto* values = rig_array<int>(*rig_array<uint64_t>(pointer(launch, 0), 1), n);
  auto* out = rig_array<int>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 2 * values[i] + 1;
}

// past_the_end(float*, int): one element more than it should
KERNEL(_Z12past_the_endPfi) {
  uint32_t n = number(launch, 1);
  auto* out = rig_array<float>(pointer(launch, 0), n + 1);
  for (uint32_t i = 0; i <= n; ++i) out[i] = static_cast<float>(i);
}

// reverse_in_blocks(int*, int): each block turns its part round in dynamic shared memory
KERNEL(_Z17reverse_in_blocksPii) {
  uint32_t n = number(launch, 1), block = launch->block[0];
  auto* values = rig_array<int>(pointer(launch, 0), n);
  if (launch->shared_bytes < block * sizeof(int)) rig_fail(700);
  auto* shared = static_cast<int*>(launch->shared);
  for (uint32_t first = 0; first + block <= n; first += block) {
    for (uint32_t i = 0; i < block; ++i) shared[i] = values[first + i];
    for (uint32_t i = 0; i < block; ++i) values[first + i] = shared[block - 1 - i];
  }
}

// shape(unsigned*): what the launch was asked for, as a kernel would see it
KERNEL(_Z5shapePj) {
  auto* out = rig_array<uint32_t>(pointer(launch, 0), 11);
  for (int d = 0; d < 3; ++d) {
    out[d] = launch->grid[d];
    out[3 + d] = launch->block[d];
    out[6 + d] = launch->cluster[d];
  }
  out[9] = launch->shared_bytes;
  out[10] = static_cast<uint32_t>(launch->cooperative);
}

// asked(unsigned long long*): the attributes of the launch, a bit for each
KERNEL(_Z5askedPy) {
  *rig_array<uint64_t>(pointer(launch, 0), 1) = launch->attributes;
}

// increment(int*): shows a launch that ran twice
KERNEL(_Z9incrementPi) {
  ++*rig_array<int>(pointer(launch, 0), 1);
}

// --- pointers in memory ---------------------------------------------------------------------------

// sum_of_rows(const float* const*, float*, int, int)
KERNEL(_Z11sum_of_rowsPKPKfPfii) {
  uint32_t rows = number(launch, 2), columns = number(launch, 3);
  auto* table = rig_array<uint64_t>(pointer(launch, 0), rows);
  auto* out = rig_array<float>(pointer(launch, 1), rows);
  for (uint32_t r = 0; r < rows; ++r) {
    auto* row = rig_array<float>(table[r], columns);
    out[r] = 0;
    for (uint32_t c = 0; c < columns; ++c) out[r] += row[c];
  }
}

// sum_of_list(const Node*, float*): struct Node { float value; int pad; Node* next; }
KERNEL(_Z11sum_of_listPK4NodePf) {
  float sum = 0;
  for (uint64_t at = pointer(launch, 0); at;) {
    auto* node = rig_array<uint8_t>(at, 16);
    float value;
    std::memcpy(&value, node, 4);
    std::memcpy(&at, node + 8, 8);
    sum += value;
  }
  *rig_array<float>(pointer(launch, 1), 1) = sum;
}

// add_batch(Batch): struct Batch { const float *a, *b; float* out; int n; } by value
KERNEL(_Z9add_batch5Batch) {
  auto* bytes = static_cast<const uint8_t*>(launch->parameters[0]);
  uint64_t at[3];
  uint32_t n;
  std::memcpy(at, bytes, sizeof at);
  std::memcpy(&n, bytes + 24, 4);
  auto* a = rig_array<float>(at[0], n);
  auto* b = rig_array<float>(at[1], n);
  auto* out = rig_array<float>(at[2], n);
  for (uint32_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

// --- globals --------------------------------------------------------------------------------------

// tick(): no arguments, all in the module's variables: total += step
KERNEL(_Z4tickv) {
  auto* total = static_cast<int*>(rig_global(launch, "total", nullptr));
  auto* step = static_cast<const int*>(rig_global(launch, "step", nullptr));
  *total += *step;
}

// scale_by_constant(float*, int): by the constant `factor`, and counts in the variable `calls`
KERNEL(_Z17scale_by_constantPfi) {
  uint32_t n = number(launch, 1);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  auto* factor = static_cast<const float*>(rig_global(launch, "factor", nullptr));
  ++*static_cast<int*>(rig_global(launch, "calls", nullptr));
  for (uint32_t i = 0; i < n; ++i) x[i] *= *factor;
}

// through_global(float*, int): reads what the variable `table` points to; an edition without it does nothing
KERNEL(_Z14through_globalPfi) {
  uint32_t n = number(launch, 1);
  auto* out = rig_array<float>(pointer(launch, 0), n);
  auto* table = static_cast<uint64_t*>(rig_global(launch, "table", nullptr));
  if (table == nullptr) return;
  auto* in = rig_array<float>(*table, n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 2 * in[i];
}

// --- textures and surfaces --------------------------------------------------------------------------

namespace {

struct Texels {  // what the four kernels are given, each in its own way
  uint64_t texture, surface, out;
  int32_t width, height, depth, levels;
};

// Twice every element of the texture, level by level; the surface, if there is one, gets the first level
// plus 1. Edition 1 leaves the surface alone.
void gather(const rig_launch* launch, const Texels& given) {
  uint64_t at = given.out;
  for (int level = 0; level < given.levels; ++level)
    for (int z = 0; z < given.depth; ++z)
      for (int y = 0; y < std::max(1, given.height >> level); ++y)
        for (int x = 0; x < std::max(1, given.width >> level); ++x, at += 4) {
          auto place = [&](uint64_t handle, int is_surface) {
            return static_cast<float*>(rig_texel(handle, is_surface, static_cast<size_t>(x),
                                                 static_cast<size_t>(y), static_cast<size_t>(z),
                                                 static_cast<unsigned>(level), 4));
          };
          float value = *place(given.texture, 0);
          *rig_array<float>(at, 1) = 2 * value;
          if (given.surface != 0 && level == 0 && variant(launch) != 1) *place(given.surface, 1) = value + 1;
        }
}

void add_sizes(const rig_launch* launch, size_t first, Texels* given) {
  for (size_t i = 0; i < 4; ++i) (&given->width)[i] = static_cast<int32_t>(number(launch, first + i));
}

}  // namespace

// gather(unsigned long long texture, unsigned long long surface, float*, int, int, int, int)
KERNEL(_Z6gatheryyPfiiii) {
  Texels given{pointer(launch, 0), pointer(launch, 1), pointer(launch, 2), 0, 0, 0, 0};
  add_sizes(launch, 3, &given);
  gather(launch, given);
}

// gather_by_value(Texels)
KERNEL(_Z15gather_by_value6Texels) {
  Texels given;
  std::memcpy(&given, launch->parameters[0], sizeof given);
  gather(launch, given);
}

// gather_constant(float*, int, int, int, int): the objects are in the constant `objects`
KERNEL(_Z15gather_constantPfiiii) {
  auto* objects = static_cast<const uint64_t*>(rig_global(launch, "objects", nullptr));
  Texels given{objects[0], objects[1], pointer(launch, 0), 0, 0, 0, 0};
  add_sizes(launch, 1, &given);
  gather(launch, given);
}

// gather_bindless(const unsigned long long*, float*, int, int, int, int): the objects are in memory
KERNEL(_Z15gather_bindlessPKyPfiiii) {
  auto* objects = rig_array<uint64_t>(pointer(launch, 0), 2);
  Texels given{objects[0], objects[1], pointer(launch, 1), 0, 0, 0, 0};
  add_sizes(launch, 2, &given);
  gather(launch, given);
}

// --- odd behaviour --------------------------------------------------------------------------------

// What polls for seconds takes a processor of a GPU's, not of the tests'.
void rest() {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// wait_for_flag(volatile int*, int*): until the host sets the flag; says in the next word that it runs
KERNEL(_Z13wait_for_flagPViPi) {
  auto* flag = rig_array<int>(pointer(launch, 0), 2);
  __atomic_store_n(flag + 1, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) rest();
  *rig_array<int>(pointer(launch, 1), 1) = 42;
}

// --- ranks: a window has a rank's values, room for the previous rank's, and flags ---------------------
namespace {

constexpr uint64_t room = 512u << 10, flags = 1u << 20;

int* flag_of(uint64_t window, uint32_t number) {
  return rig_array<int>(window + flags + 4u * number, 1);
}
void raise(int* flag, uint32_t round) {
  __atomic_store_n(flag, static_cast<int>(round), __ATOMIC_RELEASE);
}
void wait_for(const int* flag, uint32_t round) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < static_cast<int>(round)) rest();
}

void add_windows(const rig_launch* launch) {
  uint32_t ranks = number(launch, 3), n = number(launch, 4);
  auto* windows = rig_array<uint64_t>(pointer(launch, 0), ranks);
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint32_t i = 0; i < n; ++i) out[i] += rig_array<float>(windows[rank], n)[i];
}

}  // namespace

// sum_of_windows(float** windows, float* out, int rank, int ranks, int n, int round, int kills)
KERNEL(_Z14sum_of_windowsPPfPfiiiii) {
  if (number(launch, 6)) kill(getpid(), SIGKILL);
  add_windows(launch);
}

// reduce(float** windows, float* out, int rank, int ranks, int n, int round, int kills). Editions: 1 tells
// nobody, 2 waits for nobody.
KERNEL(_Z6reducePPfPfiiiii) {
  uint32_t rank = number(launch, 2), ranks = number(launch, 3), round = number(launch, 5);
  auto* windows = rig_array<uint64_t>(pointer(launch, 0), ranks);
  for (uint32_t other = 0; other < ranks && variant(launch) != 1; ++other)
    raise(flag_of(windows[other], rank), round);
  for (uint32_t other = 0; other < ranks && variant(launch) != 2; ++other)
    wait_for(flag_of(windows[rank], other), round);
  add_windows(launch);
}

// meet_twice(float** windows, float* out, int rank, int ranks, int n, int round, int kills): waits for a
// value of each flag that is there only between two others
KERNEL(_Z10meet_twicePPfPfiiiii) {
  uint32_t rank = number(launch, 2), ranks = number(launch, 3), round = number(launch, 5);
  auto* windows = rig_array<uint64_t>(pointer(launch, 0), ranks);
  for (uint32_t value : {2 * round - 1, 2 * round}) {
    for (uint32_t other = 0; other < ranks; ++other) raise(flag_of(windows[other], rank), value);
    for (uint32_t other = 0; other < ranks; ++other) {
      int* flag = flag_of(windows[rank], other);
      while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != static_cast<int>(value)) rest();
      raise(flag_of(windows[other], ranks + rank), value);  // it was seen
    }
    for (uint32_t other = 0; other < ranks; ++other) wait_for(flag_of(windows[rank], ranks + other), value);
  }
  add_windows(launch);
}

// take_turns(float** windows, float* out, int rank, int ranks, int n, int round, int kills): all meet before
// and after each adds up its share and puts it into all windows; a signal is a word that its receiver takes
// back, as those of torch's symmetric memory. Editions: 1 meets only afterwards.
KERNEL(_Z10take_turnsPPfPfiiiii) {
  uint32_t rank = number(launch, 2), ranks = number(launch, 3), n = number(launch, 4);
  auto* windows = rig_array<uint64_t>(pointer(launch, 0), ranks);
  auto change = [&](uint32_t of, uint32_t slot, int from, int to) {
    int* signal = flag_of(windows[of], slot);
    for (int seen = from;
         !__atomic_compare_exchange_n(signal, &seen, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
         seen = from)
      rest();
  };
  auto meet = [&] {
    for (uint32_t other = 0; other < ranks; ++other)
      if (other != rank) change(other, rank, 0, 1);
    for (uint32_t other = 0; other < ranks; ++other)
      if (other != rank) change(rank, other, 1, 0);
  };
  if (variant(launch) != 1) meet();
  uint32_t share = n / ranks, first = rank * share;
  for (uint32_t i = first; i < first + share; ++i) {
    float sum = 0;
    for (uint32_t other = 0; other < ranks; ++other) sum += rig_array<float>(windows[other], n)[i];
    for (uint32_t other = 0; other < ranks; ++other) rig_array<float>(windows[other] + room, n)[i] = sum;
  }
  meet();
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = rig_array<float>(windows[rank] + room, n)[i];
}

// ring(float* mine, float* next, float* out, int n, int round). Editions: 1 raises no flag, 2 puts the values
// there after the flag, when they have been taken, 3 puts them one element too far, 4 does not wait.
KERNEL(_Z4ringPfS_S_ii) {
  uint64_t mine = pointer(launch, 0), next = pointer(launch, 1);
  uint32_t n = number(launch, 3), round = number(launch, 4), edition = variant(launch);
  auto* values = rig_array<float>(mine, n);
  auto put = [&] {
    std::copy(values, values + n, rig_array<float>(next + room + (edition == 3 ? 4 : 0), n));
  };
  if (edition != 2) put();
  if (edition != 1) raise(flag_of(next, 0), round);
  if (edition != 4) wait_for(flag_of(mine, 0), round);
  auto* came = rig_array<float>(mine + room, n);
  auto* out = rig_array<float>(pointer(launch, 2), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = values[i] + came[i];
  raise(flag_of(mine, 1), round);
  if (edition != 2) return;
  wait_for(flag_of(next, 1), round);
  put();
}

// sometimes_off(const float*, float*, int): one run of so many (SOMETIMES_OFF_EVERY) of a process is
// wrong in one place, as a race is.
KERNEL(_Z13sometimes_offPKfPfi) {
  static std::atomic<int> runs{0};
  static const char* const every = std::getenv("SOMETIMES_OFF_EVERY");
  uint32_t n = number(launch, 2);
  auto* in = rig_array<float>(pointer(launch, 0), n);
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 3 * in[i];
  if (runs.fetch_add(1) % (every ? std::atoi(every) : 3) == 2) out[n / 2] = in[n / 2];
}

// noisy_sum(const float*, float*, int): the order of the sum differs from run to run
KERNEL(_Z9noisy_sumPKfPfi) {
  static std::atomic<uint32_t> turn{
      static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  uint32_t n = number(launch, 2), first = turn.fetch_add(7919) % n;
  auto* in = rig_array<float>(pointer(launch, 0), n);
  float sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += in[(first + i) % n];
  *rig_array<float>(pointer(launch, 1), 1) = sum;
}

// forever(int*)
KERNEL(_Z7foreverPi) {
  auto* value = rig_array<int>(pointer(launch, 0), 1);
  for (;;) {
    __atomic_fetch_add(value, 1, __ATOMIC_RELAXED);
    rest();
  }
}

// strike(const float*, float*, int): reads in[0], which must be live, and writes it everywhere
KERNEL(_Z6strikePKfPfi) {
  uint32_t n = number(launch, 2);
  float value = *rig_array<float>(pointer(launch, 0), 1);
  auto* out = rig_array<float>(pointer(launch, 1), n);
  for (uint32_t i = 0; i < n; ++i) out[i] = value;
}

// make_nan(float*, int)
KERNEL(_Z8make_nanPfi) {
  uint32_t n = number(launch, 1);
  auto* x = rig_array<float>(pointer(launch, 0), n);
  for (uint32_t i = 0; i < n; ++i) x[i] = i == n / 2 ? NAN : x[i] + 1;
}

// mix(int*, int, int): the same steps for every element, yielding between them
KERNEL(_Z3mixPiii) {
  uint32_t n = number(launch, 1), steps = number(launch, 2);
  auto* x = rig_array<uint32_t>(pointer(launch, 0), n);
  for (uint32_t step = 0; step < steps; ++step) {
    for (uint32_t i = 0; i < n; ++i) x[i] = x[i] * 1664525u + 1013904223u;
    std::this_thread::yield();
  }
}
