// PTX declarations of the clients' kernels: the rig reads names, parameters and variables of an image,
// never its code.
#ifndef KERNCAP_CLIENT_PTX_H
#define KERNCAP_CLIENT_PTX_H

#define PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define PTX_ENTRY(name, parameters) ".visible .entry " name "(" parameters ")\n{\n ret;\n}\n"

#define VECTOR_ADD "_Z10vector_addPKfS0_Pfi"
#define PTX_VECTOR_ADD PTX_ENTRY(VECTOR_ADD, ".param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n")
#define SCALE "_Z14scale_in_placePffi"
#define PTX_SCALE PTX_ENTRY(SCALE, ".param .u64 x, .param .f32 s, .param .u32 n")
#define HISTOGRAM "_Z9histogramPKiPii"
#define PTX_HISTOGRAM PTX_ENTRY(HISTOGRAM, ".param .u64 values, .param .u64 counts, .param .u32 n")
#define NOTHING "_Z7nothingPfi"
#define PTX_NOTHING PTX_ENTRY(NOTHING, ".param .u64 x, .param .u32 n")
#define TELL "_Z4tellPfi"
#define PTX_TELL(variant)                                                                             \
  ".visible .global .align 4 .u32 rig_variant = " variant                                             \
  ";\n"                                                                                               \
  ".extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 values);\n" PTX_ENTRY( \
      TELL, ".param .u64 x, .param .u32 n")
#define MAKE_LIST "_Z9make_listPPii"
#define PTX_MAKE_LIST                                                               \
  ".extern .func (.param .b64 made) malloc (.param .b64 bytes);\n"                  \
  ".visible .entry " MAKE_LIST                                                      \
  "(.param .u64 list, .param .u32 n)\n{\n .param .b64 made;\n .param .b64 bytes;\n" \
  " call.uni (made), malloc, (bytes);\n ret;\n}\n"
#define USE_LIST "_Z8use_listPPiS_i"
#define PTX_USE_LIST PTX_ENTRY(USE_LIST, ".param .u64 list, .param .u64 out, .param .u32 n")
#define PAST_THE_END "_Z12past_the_endPfi"
#define PTX_PAST_THE_END PTX_ENTRY(PAST_THE_END, ".param .u64 out, .param .u32 n")
#define REVERSE "_Z17reverse_in_blocksPii"
#define PTX_REVERSE PTX_ENTRY(REVERSE, ".param .u64 x, .param .u32 n")
#define SHAPE "_Z5shapePj"
#define PTX_SHAPE PTX_ENTRY(SHAPE, ".param .u64 out")
#define INCREMENT "_Z9incrementPi"
#define PTX_INCREMENT PTX_ENTRY(INCREMENT, ".param .u64 x")
#define DECIDE "_Z6decideyPKi"
#define PTX_DECIDE PTX_ENTRY(DECIDE, ".param .u64 handle, .param .u64 value")
#define TURN "_Z4turnyPi"
#define PTX_TURN PTX_ENTRY(TURN, ".param .u64 handle, .param .u64 left")
#define SUM_OF_ROWS "_Z11sum_of_rowsPKPKfPfii"
#define PTX_SUM_OF_ROWS \
  PTX_ENTRY(SUM_OF_ROWS, ".param .u64 table, .param .u64 out, .param .u32 rows, .param .u32 columns")
#define SUM_OF_LIST "_Z11sum_of_listPK4NodePf"
#define PTX_SUM_OF_LIST PTX_ENTRY(SUM_OF_LIST, ".param .u64 head, .param .u64 out")
#define ADD_BATCH "_Z9add_batch5Batch"
#define PTX_ADD_BATCH PTX_ENTRY(ADD_BATCH, ".param .align 8 .b8 batch[32]")
#define TICK "_Z4tickv"
#define PTX_TICK(start, step)                     \
  ".visible .global .align 4 .u32 total = " start \
  ";\n"                                           \
  ".visible .const .align 4 .u32 step = " step ";\n" PTX_ENTRY(TICK, "")
#define SCALE_BY_CONSTANT "_Z17scale_by_constantPfi"
#define PTX_SCALE_BY_CONSTANT                            \
  ".visible .const .align 4 .f32 factor = 0f40400000;\n" \
  ".visible .global .align 4 .u32 calls;\n" PTX_ENTRY(SCALE_BY_CONSTANT, ".param .u64 x, .param .u32 n")
#define THROUGH_GLOBAL "_Z14through_globalPfi"
#define PTX_THROUGH_GLOBAL \
  ".visible .global .align 8 .u64 table;\n" PTX_ENTRY(THROUGH_GLOBAL, ".param .u64 out, .param .u32 n")
#define PTX_SIZES ".param .u32 width, .param .u32 height, .param .u32 depth, .param .u32 levels"
#define GATHER "_Z6gatheryyPfiiii"
#define PTX_GATHER PTX_ENTRY(GATHER, ".param .u64 texture, .param .u64 surface, .param .u64 out, " PTX_SIZES)
#define GATHER_BY_VALUE "_Z15gather_by_value6Texels"
#define PTX_GATHER_BY_VALUE PTX_ENTRY(GATHER_BY_VALUE, ".param .align 8 .b8 texels[40]")
#define GATHER_CONSTANT "_Z15gather_constantPfiiii"
#define PTX_GATHER_CONSTANT \
  ".visible .const .align 8 .b8 objects[16];\n" PTX_ENTRY(GATHER_CONSTANT, ".param .u64 out, " PTX_SIZES)
#define GATHER_BINDLESS "_Z15gather_bindlessPKyPfiiii"
#define PTX_GATHER_BINDLESS PTX_ENTRY(GATHER_BINDLESS, ".param .u64 objects, .param .u64 out, " PTX_SIZES)
#define NCCL_ALL_REDUCE "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLPKfS0_Pfi"
#define PTX_NCCL_ALL_REDUCE \
  PTX_ENTRY(NCCL_ALL_REDUCE, ".param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n")
#define LSA_SUM "_Z7lsa_sumIfEvPKfS1_PfiPK11ncclDevComm"
#define PTX_LSA_SUM \
  PTX_ENTRY(LSA_SUM, ".param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n, .param .u64 comm")
#define WAIT_FOR_FLAG "_Z13wait_for_flagPViPi"
#define PTX_WAIT_FOR_FLAG PTX_ENTRY(WAIT_FOR_FLAG, ".param .u64 flag, .param .u64 out")
// With the loop, as compiled code would show it.
#define PTX_WAIT_IN_LOOP                                                                      \
  ".visible .entry " WAIT_FOR_FLAG                                                            \
  "(.param .u64 flag, .param .u64 out)\n{\n"                                                  \
  " .reg .pred %p<2>;\n .reg .b32 %r<2>;\n .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [flag];\n"  \
  "$again:\n ld.acquire.sys.u32 %r1, [%rd1];\n setp.eq.s32 %p1, %r1, 0;\n @%p1 bra $again;\n" \
  " ret;\n}\n"
#define PTX_OF_RANKS                                                                                       \
  ".param .u64 windows, .param .u64 out, .param .u32 rank, .param .u32 ranks, .param .u32 n, .param .u32 " \
  "round, "                                                                                                \
  ".param .u32 kills"
#define REDUCE "_Z6reducePPfPfiiiii"
#define PTX_REDUCE PTX_ENTRY(REDUCE, PTX_OF_RANKS)
#define TAKE_TURNS "_Z10take_turnsPPfPfiiiii"
#define PTX_TAKE_TURNS PTX_ENTRY(TAKE_TURNS, PTX_OF_RANKS)
#define MEET_TWICE "_Z10meet_twicePPfPfiiiii"
#define PTX_MEET_TWICE PTX_ENTRY(MEET_TWICE, PTX_OF_RANKS)
#define SUM_OF_WINDOWS "_Z14sum_of_windowsPPfPfiiiii"
#define PTX_SUM_OF_WINDOWS PTX_ENTRY(SUM_OF_WINDOWS, PTX_OF_RANKS)
#define RING "_Z4ringPfS_S_ii"
#define PTX_RING \
  PTX_ENTRY(RING, ".param .u64 mine, .param .u64 next, .param .u64 out, .param .u32 n, .param .u32 round")
#define SOMETIMES_OFF "_Z13sometimes_offPKfPfi"
#define PTX_SOMETIMES_OFF PTX_ENTRY(SOMETIMES_OFF, ".param .u64 in, .param .u64 out, .param .u32 n")
#define NOISY_SUM "_Z9noisy_sumPKfPfi"
#define PTX_NOISY_SUM PTX_ENTRY(NOISY_SUM, ".param .u64 in, .param .u64 out, .param .u32 n")
#define FOREVER "_Z7foreverPi"
#define PTX_FOREVER PTX_ENTRY(FOREVER, ".param .u64 x")
#define STRIKE "_Z6strikePKfPfi"
#define PTX_STRIKE PTX_ENTRY(STRIKE, ".param .u64 in, .param .u64 out, .param .u32 n")
#define MAKE_NAN "_Z8make_nanPfi"
#define PTX_MAKE_NAN PTX_ENTRY(MAKE_NAN, ".param .u64 x, .param .u32 n")
#define MIX "_Z3mixPiii"
#define PTX_MIX PTX_ENTRY(MIX, ".param .u64 x, .param .u32 n, .param .u32 steps")

#endif  // KERNCAP_CLIENT_PTX_H
