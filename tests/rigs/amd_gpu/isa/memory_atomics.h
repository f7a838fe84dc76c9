// Atomics of FLAT, GLOBAL and MUBUF, which have the same names and differ in their path and operands.
#ifndef KERNCAP_AMD_GPU_ISA_MEMORY_ATOMICS_H
#define KERNCAP_AMD_GPU_ISA_MEMORY_ATOMICS_H

#include "atomics.h"

namespace amd_gpu {

// Operand numbers of an atomic: where the old value goes, where data and address begin.
struct AtomicOperands {
  unsigned old, data, address;
};

// F is change(old, data). The old value goes to a lane's register where the instruction returns it.
template <class Path, class F>
void atomic(Wave& wave, const Instruction& in) {
  using T = typename SignatureOf<F>::Result;
  const AtomicOperands operands = Path::atomic_operands(in);
  Path path(wave, in, operands.address);
  const u16 data = in.operand(operands.data).index;
  for_active(wave, [&](unsigned l) {
    u8* word = path.word(l, sizeof(T));
    T old{};
    if (word) {
      const T operand = lane_value<T>(wave, data, l);
      old = change_word<T>(word, [&](T before) { return F{}(before, operand); });
    }
    if (in.returns) set_lane_value(wave, in.operand(operands.old).index, l, old);
  });
}

// The new value, and behind it the one to compare with.
template <class Path, class T>
void compare_and_swap(Wave& wave, const Instruction& in) {
  const AtomicOperands operands = Path::atomic_operands(in);
  Path path(wave, in, operands.address);
  const u16 data = in.operand(operands.data).index;
  for_active(wave, [&](unsigned l) {
    u8* word = path.word(l, sizeof(T));
    T old{};
    if (word) {
      const T next = lane_value<T>(wave, data, l), expected = lane_value<T>(wave, data + sizeof(T) / 4, l);
      old = change_word<T>(word, [&](T before) { return before == expected ? next : before; });
    }
    if (in.returns) set_lane_value(wave, in.operand(operands.old).index, l, old);
  });
}

template <class Path, class U>
void add_integer_atomics(Table& t, const std::string& prefix, const std::string& ending) {
  using I = std::make_signed_t<U>;
  const auto add = [&]<class F>(const char* name, F) { t.add(prefix + name + ending, atomic<Path, F>); };
  t.add(prefix + "cmpswap" + ending, compare_and_swap<Path, U>);
  add("swap", [](U, U data) { return data; });
  add("add", [](U old, U data) { return static_cast<U>(old + data); });
  add("sub", [](U old, U data) { return static_cast<U>(old - data); });
  add("smin", [](I old, I data) { return min_of(old, data); });
  add("smax", [](I old, I data) { return max_of(old, data); });
  add("umin", [](U old, U data) { return min_of(old, data); });
  add("umax", [](U old, U data) { return max_of(old, data); });
  add("and", [](U old, U data) { return static_cast<U>(old & data); });
  add("or", [](U old, U data) { return static_cast<U>(old | data); });
  add("xor", [](U old, U data) { return static_cast<U>(old ^ data); });
  add("inc", [](U old, U data) { return wrap_increment(old, data); });
  add("dec", [](U old, U data) { return wrap_decrement(old, data); });
}

// `prefix` is "global_atomic_" and the like.
template <class Path>
void add_atomics(Table& t, const std::string& prefix) {
  add_integer_atomics<Path, u32>(t, prefix, "");
  add_integer_atomics<Path, u64>(t, prefix, "_x2");
  const auto add = [&]<class F>(const char* name, F) { t.add(prefix + name, atomic<Path, F>); };
  add("add_f32", [](f32 old, f32 data) { return old + data; });
  add("add_f64", [](f64 old, f64 data) { return old + data; });
  add("min_f64", [](f64 old, f64 data) { return min_of(old, data); });
  add("max_f64", [](f64 old, f64 data) { return max_of(old, data); });
  add("pk_add_f16", [](u32 old, u32 data) { return add_half_pairs(old, data); });
  add("pk_add_bf16", [](u32 old, u32 data) { return add_bf16_pairs(old, data); });
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_MEMORY_ATOMICS_H
