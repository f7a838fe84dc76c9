// Scalar instructions from plain functions: scalar(table, "s_mul_i32", [](u32 a, u32 b) { return a * b; }).
#ifndef KERNCAP_AMD_GPU_ISA_SCALAR_H
#define KERNCAP_AMD_GPU_ISA_SCALAR_H

#include <tuple>
#include <utility>

#include "lanes.h"

namespace amd_gpu {

// A result with the condition code that goes with it.
template <class T>
struct WithScc {
  T value;
  bool scc;
};
template <class T>
WithScc(T, bool) -> WithScc<T>;

// Where the condition code says whether the result is not zero.
template <class T>
WithScc<T> nonzero(T value) {
  return {value, value != 0};
}

template <class T>
T scalar_source(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8)
    return as<T>(wave.get64(operand));
  else
    return as<T>(wave.get32(operand));
}

inline void put_scalar(Wave& wave, const Instruction& instruction, u32 value) {
  wave.put32(instruction.operand(0), value);
}
inline void put_scalar(Wave& wave, const Instruction& instruction, u64 value) {
  wave.put64(instruction.operand(0), value);
}
inline void put_scalar(Wave& wave, const Instruction& instruction, i32 value) {
  put_scalar(wave, instruction, static_cast<u32>(value));
}
inline void put_scalar(Wave& wave, const Instruction& instruction, i64 value) {
  put_scalar(wave, instruction, static_cast<u64>(value));
}
inline void put_scalar(Wave& wave, const Instruction&, bool value) {
  wave.scc = value;
}
template <class T>
void put_scalar(Wave& wave, const Instruction& instruction, WithScc<T> result) {
  put_scalar(wave, instruction, result.value);
  wave.scc = result.scc;
}

template <class F, size_t... slot>
void run_scalar(Wave& wave, const Instruction& instruction, std::index_sequence<slot...>) {
  using Signature = SignatureOf<F>;
  // Comparisons have no destination: their result is the condition code.
  constexpr unsigned first = std::is_same_v<typename Signature::Result, bool> ? 0 : 1;
  put_scalar(wave, instruction,
             F{}(scalar_source<std::tuple_element_t<slot, typename Signature::Arguments>>(
                 wave, instruction.operand(first + slot))...));
}

template <class F>
void scalar(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, [](Wave& wave, const Instruction& instruction) {
    run_scalar<F>(wave, instruction, std::make_index_sequence<SignatureOf<F>::count>{});
  });
}

// SOPK: destination = f(destination, 16-bit immediate); a bool is the condition code.
template <class F>
void scalar_immediate(Table& table, std::string_view mnemonic, F) {
  table.add(mnemonic, [](Wave& wave, const Instruction& instruction) {
    put_scalar(wave, instruction, F{}(wave.get32(instruction.operand(0)), instruction.immediate()));
  });
}

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_SCALAR_H
