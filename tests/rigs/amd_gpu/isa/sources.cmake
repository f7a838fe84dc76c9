# The instruction side: KERNCAP_AMD_GPU_ISA_SOURCES, objects for a target's sources.
file(GLOB isa_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_library(amd_gpu_isa OBJECT ${isa_sources})
set_target_properties(amd_gpu_isa PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_compile_options(amd_gpu_isa PRIVATE -Wall -Wextra -Werror)
# Parsing the standard library's headers would be most of the time.
target_precompile_headers(amd_gpu_isa PRIVATE ${CMAKE_CURRENT_LIST_DIR}/lanes.h)

# No fused operation that the instruction does not have (contract); registers are read in several types
# (aliasing); loops over lanes are worth vectorising whatever they cost in size. Not -frounding-math, although MODE
# can change the host's rounding: GCC would not vectorise fma, and there are no constants here for it to fold.
# No word on how vectors are passed (psabi): all of it is inline.
target_compile_options(amd_gpu_isa PRIVATE -O3 -ffp-contract=off -Wno-psabi
                       -fno-strict-aliasing -fno-trapping-math -fno-math-errno)

# Lanes are plain arrays, and what makes them fast are the host's wide registers. What is built is run on the
# machine where it is built, so that asking this machine is enough.
include(CheckCXXSourceRuns)
check_cxx_source_runs("int main() { return !__builtin_cpu_supports(\"avx2\") || !__builtin_cpu_supports(\"fma\") ||
  !__builtin_cpu_supports(\"bmi2\"); }" AMD_GPU_WIDE_REGISTERS)
check_cxx_source_runs("int main() { return !__builtin_cpu_supports(\"avx512vl\") ||
  !__builtin_cpu_supports(\"avx512bw\") || !__builtin_cpu_supports(\"avx512dq\"); }" AMD_GPU_WIDEST_REGISTERS)
if(AMD_GPU_WIDE_REGISTERS)
  target_compile_options(amd_gpu_isa PRIVATE -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt)
endif()
if(AMD_GPU_WIDEST_REGISTERS)
  target_compile_options(amd_gpu_isa PRIVATE -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512)
endif()
set(KERNCAP_AMD_GPU_ISA_SOURCES $<TARGET_OBJECTS:amd_gpu_isa>)
