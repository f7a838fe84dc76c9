// DS: atomics of LDS. One wave of a group runs at a time, so that nothing can come between read and write.
// Source: AMD Instinct MI300 ISA, "LDS and GDS Instructions".
#include "atomics.h"

namespace amd_gpu {
namespace {

template <class T>
T load(const u8* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Operands: old value (in the returning form), address, data; F is change(old, data) or change(old, data,
// data2).
template <class F, bool returns>
void change(Wave& wave, const Instruction& in) {
  using T = typename SignatureOf<F>::Result;
  constexpr unsigned first = returns ? 1 : 0;
  Lanes<u32> address;
  std::memcpy(address.lane, wave.vector[in.operand(first).index], sizeof address);
  const u16 data = in.operand(first + 1).index;
  for_active(wave, [&](unsigned l) {
    u8* at = wave.lds_at(u64{address[l]} + static_cast<u16>(in.offset), sizeof(T), true);
    const T old = load<T>(at), operand = lane_value<T>(wave, data, l);
    T next;
    if constexpr (SignatureOf<F>::count == 3) {
      next = F{}(old, operand, lane_value<T>(wave, in.operand(first + 2).index, l));
    } else {
      next = F{}(old, operand);
    }
    std::memcpy(at, &next, sizeof next);
    if (returns) set_lane_value(wave, in.operand(0).index, l, old);
  });
}

// "ds_add" and "u32" make ds_add_u32 and ds_add_rtn_u32.
template <class F>
void add(Table& t, const std::string& name, const std::string& type, F) {
  t.add(name + "_" + type, change<F, false>);
  t.add(name + "_rtn_" + type, change<F, true>);
}

template <class U>
void add_integer(Table& t, const std::string& bits) {
  using I = std::make_signed_t<U>;
  const std::string u = "u" + bits, i = "i" + bits, b = "b" + bits;
  add(t, "ds_add", u, [](U old, U data) { return static_cast<U>(old + data); });
  add(t, "ds_sub", u, [](U old, U data) { return static_cast<U>(old - data); });
  add(t, "ds_rsub", u, [](U old, U data) { return static_cast<U>(data - old); });
  add(t, "ds_inc", u, [](U old, U data) { return wrap_increment(old, data); });
  add(t, "ds_dec", u, [](U old, U data) { return wrap_decrement(old, data); });
  add(t, "ds_min", u, [](U old, U data) { return min_of(old, data); });
  add(t, "ds_max", u, [](U old, U data) { return max_of(old, data); });
  add(t, "ds_min", i, [](I old, I data) { return min_of(old, data); });
  add(t, "ds_max", i, [](I old, I data) { return max_of(old, data); });
  add(t, "ds_and", b, [](U old, U data) { return static_cast<U>(old & data); });
  add(t, "ds_or", b, [](U old, U data) { return static_cast<U>(old | data); });
  add(t, "ds_xor", b, [](U old, U data) { return static_cast<U>(old ^ data); });
  add(t, "ds_mskor", b, [](U old, U mask, U data) { return static_cast<U>((old & ~mask) | data); });
  add(t, "ds_wrxchg", b, [](U, U data) { return data; });
  add(t, "ds_cmpst", b, [](U old, U expected, U data) { return old == expected ? data : old; });
}

template <class T>
void add_real(Table& t, const std::string& type) {
  add(t, "ds_add", type, [](T old, T data) { return old + data; });
  add(t, "ds_min", type, [](T old, T data) { return min_of(old, data); });
  add(t, "ds_max", type, [](T old, T data) { return max_of(old, data); });
  add(t, "ds_cmpst", type, [](T old, T expected, T data) { return old == expected ? data : old; });
}

}  // namespace

void add_lds_atomics(Table& t) {
  add_integer<u32>(t, "32");
  add_integer<u64>(t, "64");
  add_real<f32>(t, "f32");
  add_real<f64>(t, "f64");
  add(t, "ds_pk_add", "f16", [](u32 old, u32 data) { return add_half_pairs(old, data); });
  add(t, "ds_pk_add", "bf16", [](u32 old, u32 data) { return add_bf16_pairs(old, data); });
  add(t, "ds_wrap", "b32",
      [](u32 old, u32 limit, u32 data) { return old >= limit ? old - limit : old + data; });
}

}  // namespace amd_gpu
