#include "stretch_row.h"

namespace amd_gpu {
namespace {

// Lanes of other rows are inactive as long as this lives.
class OneRow {
 public:
  OneRow(Wave& wave, u32 row) : wave_(wave), exec_(wave.exec()) {
    wave.set_exec(exec_ & u64{0xffff} << row * sixteen);
  }
  ~OneRow() { wave_.set_exec(exec_); }
  OneRow(const OneRow&) = delete;
  OneRow& operator=(const OneRow&) = delete;

 private:
  Wave& wave_;
  u64 exec_;
};

// One row of an instruction, as its own file has it. Of masks it leaves the bits of the other rows.
void run_row(Wave& wave, const Instruction& in, u32 row) {
  const u64 bits = u64{0xffff} << row * sixteen;
  const bool makes_mask = in.operand(1).is_scalar();
  const u64 mask = makes_mask ? wave.pair(in.operand(1).index) : 0;
  {
    const OneRow only(wave, row);
    in.execute(wave, in);
  }
  if (makes_mask)
    wave.set_pair(in.operand(1).index, (mask & ~bits) | (wave.pair(in.operand(1).index) & bits));
}

}  // namespace

void call(HostCode& code, const void* function, const Instruction& in, u32 number) {
  code.call(function, &in, number, offsetof(Registers, called), offsetof(Registers, scalar));
}

void Row::find_mapping(const Instruction& in, u8 bytes) {
  const size_t slot = in.pc / 4 % std::tuple_size_v<decltype(Registers::last_reached)>;
  search_.last_reached = static_cast<i32>(offsetof(Registers, last_reached) + slot * sizeof(Mapping*));
  search_.bytes = bytes;
  code.load_r9(Base::rdi, search_.last_reached);
  search_.from = code.find_in_r9(offsetof(Mapping, device_va), offsetof(Mapping, size_bytes),
                                 offsetof(Mapping, host), bytes);
  search_.back = code.bytes.size();
}

// Comes to its end if no mapping that was used before is the one.
void Row::emit_search(const Search& search) {
  for (const size_t jump : search.from) code.land(jump);
  const i32 first = static_cast<i32>(offsetof(Registers, reach) + Reach::offset_of_mappings());
  code.address_in_r9(Base::rdi, first);
  const size_t again = code.bytes.size();
  const auto next = code.find_in_r9(offsetof(Mapping, device_va), offsetof(Mapping, size_bytes),
                                    offsetof(Mapping, host), search.bytes);
  code.store_r9(Base::rdi, search.last_reached);
  code.jump_back(search.back);
  for (const size_t jump : next) code.land(jump);
  code.next_in_r9(sizeof(Mapping), Base::rdi, first + static_cast<i32>(Reach::mappings * sizeof(Mapping)),
                  again);
}

void Row::add_detours() {
  for (const Detour& detour : detours_) {
    if (detour.search.bytes) emit_search(detour.search);
    for (const size_t jump : detour.cases) code.land(jump);
    if (masked) {  // of no lane there is nothing to do
      code.test_masks(active, active);
      code.jump_back_if(HostCode::If::is_zero, detour.back);
    }
    known_mask_ = detour.known_mask, known_result_ = detour.known_result;
    for (u8 host = 0; host < host_registers; host++)
      if (detour.hosts[host].changed)
        code.store(Base::rdi, home_of(detour.hosts[host]), host, masked ? active : no_mask);
    store_mask();
    call(code, reinterpret_cast<const void*>(run_row), *detour.in, number_);
    if (masked) code.load_mask(active, Base::rsi, mask_at(exec_lo));
    if (known_mask_ != no_register) code.load_mask(results[known_result_], Base::rsi, mask_at(known_mask_));
    if (detour.mask) code.load_mask(fresh_mask(), Base::rsi, mask_at(detour.mask->index));
    for (u8 host = 0; host < host_registers; host++)
      if (detour.hosts[host].vector >= 0) code.load(host, Base::rdi, home_of(detour.hosts[host]));
    for (unsigned k = 0; k < detour.results.size(); k++)
      code.load(detour.results[k], Base::rdi, vector_at(detour.in->operand(0).index + k));
    code.jump_back(detour.back);
  }
}

}  // namespace amd_gpu
