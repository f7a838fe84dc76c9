// One decoded instruction, and the table that says what its mnemonic does.
#ifndef KERNCAP_AMD_GPU_ISA_INSTRUCTION_H
#define KERNCAP_AMD_GPU_ISA_INSTRUCTION_H

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "../gpu.h"
#include "numbers.h"

namespace amd_gpu {

struct Wave;
struct Instruction;
using Execute = void (*)(Wave&, const Instruction&);

// Numbers of scalar registers in an encoding; 0 to 101 are s0 to s101.
// Source: AMD Instinct MI300 ISA, table "Scalar Register Addresses".
enum ScalarRegister : u16 {
  flat_scratch_lo = 102,
  xnack_mask_lo = 104,
  vcc_lo = 106,
  ttmp0 = 108,
  m0 = 124,
  exec_lo = 126,
  scalar_registers = 128,
  shared_base = 235,
  shared_limit = 236,
  private_base = 237,
  private_limit = 238,
  vccz = 251,
  execz = 252,
  scc = 253,
};

constexpr unsigned lanes = 64;

// A number in an instruction.
struct Constant {
  i64 integer = 0;
  f64 real = 0;
  alignas(64) u32 row[lanes] = {};  // its 32 bits, once for each lane
};

struct Operand {
  enum class Kind : u8 { none, vector, scalar, integer, real, off };
  Kind kind = Kind::none;
  u8 words = 1;
  u16 index = 0;  // of the first register; accumulation registers follow the 256 vector registers
  bool negate = false, absolute = false, sign_extend = false;
  bool literal = false;                // 32 bits behind the instruction, not an inline constant
  const Constant* constant = nullptr;  // of an integer or a real number

  bool is_vector() const { return kind == Kind::vector; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_constant() const { return constant; }
};

// Which part of a 32-bit register an SDWA operand is.
enum class Part : u8 { byte0, byte1, byte2, byte3, word0, word1, all };

// Where a lane's first source comes from in DPP.
enum class Move : u8 {
  none,
  quad_perm,
  row_shl,
  row_shr,
  row_ror,
  wave_shl,
  wave_rol,
  wave_shr,
  wave_ror,
  row_mirror,
  row_half_mirror,
  row_bcast15,
  row_bcast31,
  row_newbcast,
};

// First what every execution reads: a program's instructions and registers are more than the nearest cache
// holds.
struct alignas(64) Instruction {
  Execute execute = nullptr;
  u64 after = 0;                              // the address of what follows it
  mutable const Instruction* next = nullptr;  // what follows, if known, in the same page and not steering
  u64 pc = 0;                                 // its own address
  mutable const Instruction* then = nullptr;  // in the same page, what ran next at last, wherever that is
  u16 detail = 0;                             // the Entry's
  u8 size_bytes = 4;
  u8 operand_count = 0;
  u8 count = 1;         // of instructions, in a Stretch
  bool steers = false;  // it reads or says where and when the wave goes on
  bool sdwa = false, dpp = false;
  bool plain = false;  // no DPP, SDWA, clamp or scale: what is computed is written as it is
  std::array<Operand, 6> operands;

  bool idle = false;           // it changes nothing
  std::array<u32, 3> words{};  // as encoded
  // VOP3 and VOP3P
  u8 op_sel = 0, op_sel_hi = 0, negate_lo = 0, negate_hi = 0;  // bit k is source k
  bool clamp = false;
  i8 output_scale = 0;  // a power of two: mul:2, mul:4, div:2
  // MFMA
  u8 cbsz = 0, abid = 0, blgp = 0;
  u8 truth_table = 0;           // v_bitop3
  bool fetch_inactive = false;  // v_permlane_swap
  // SDWA and DPP
  bool bound_ctrl = false;
  Part destination = Part::all, source0 = Part::all, source1 = Part::all;
  enum class Unused : u8 { pad, sign_extend, preserve } unused = Unused::pad;
  Move move = Move::none;
  u8 move_by = 0, row_mask = 15, bank_mask = 15;
  std::array<u8, 4> quad{};
  // memory
  i32 offset = 0;
  u16 offset0 = 0, offset1 = 0;
  bool returns = false;  // an atomic that gives the old value (glc, on gfx942 sc0)
  bool offset_enabled = false, index_enabled = false, to_lds = false;

  std::string text, mnemonic;

  const Operand& operand(unsigned index) const { return operands[index]; }
  i16 immediate() const { return static_cast<i16>(words[0]); }  // of SOPP, SOPK and ds_swizzle
};

// What stands behind a mnemonic (without _e32, _e64, _sdwa, _dpp).
struct Entry {
  Execute execute = nullptr;
  Execute clamped =
      nullptr;          // for integers, where `clamp` saturates; floating point results are clamped by put()
  bool clamps = false;  // `execute` itself respects Instruction::clamp
  u16 detail = 0;       // tells apart the instructions that share `execute`
  bool idle = false;    // changes nothing, for a wait that is always over
  bool steers = false;  // reads or says where and when the wave goes on
  bool words_only = false;  // reads its operands from the encoding: the text is not looked at
};

class Table {
 public:
  // What is added from here on.
  void steering(bool steers) { steering_ = steers; }
  void add(std::string_view mnemonic, Entry entry) {
    entry.steers = steering_;
    entries_.insert_or_assign(std::string(mnemonic), entry);
  }
  void add(std::string_view mnemonic, Execute execute) { add(mnemonic, Entry{.execute = execute}); }
  void add_words_only(std::string_view mnemonic, Execute execute) {
    add(mnemonic, Entry{.execute = execute, .words_only = true});
  }
  const Entry* find(const std::string& mnemonic) const {
    const auto found = entries_.find(mnemonic);
    return found == entries_.end() ? nullptr : &found->second;
  }
  // Every instruction of this target that is known, and some of others.
  static const Table& of(Target target);

 private:
  bool steering_ = false;
  std::unordered_map<std::string, Entry> entries_;
};

// One function per source file of instructions.
void add_scalar_arithmetic(Table&);
void add_scalar_bits(Table&);
void add_scalar_compare(Table&);
void add_scalar_memory(Table&);
void add_control(Table&);
void add_vector_float(Table&);
void add_vector_double(Table&);
void add_vector_half(Table&);
void add_vector_integer(Table&);
void add_vector_bits(Table&);
void add_carries(Table&);
void add_division(Table&);
void add_compare(Table&);
void add_convert(Table&);
void add_float8(Table&, Target);
void add_scaled(Table&);
void add_gfx950(Table&);
void add_packed(Table&);
void add_dot(Table&);
void add_cross_lane(Table&);
void add_matrix(Table&, Target);
void add_matrix_sparse(Table&, Target);
void add_matrix_scaled(Table&);
void add_memory(Table&);
void add_memory_atomics(Table&);
void add_buffer(Table&);
void add_lds(Table&);
void add_lds_atomics(Table&);
void add_gws(Table&);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_ISA_INSTRUCTION_H
