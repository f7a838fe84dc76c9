# kerncap_compiled(NAME INCLUDE): how everything is compiled that becomes part of a shim. INCLUDE: a vendor's
# headers, or "".
function(kerncap_compiled name vendor_include)
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..")
  if(vendor_include)
    target_include_directories(${name} SYSTEM PRIVATE "${vendor_include}")
  endif()
  # Every version of every driver function under its own name: see cuda/cuda_api.h.
  target_compile_definitions(${name} PRIVATE __CUDA_API_VERSION_INTERNAL)
  # Functions that cuda.h calls deprecated are still called by programs.
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror -Wno-deprecated-declarations
                                         -fvisibility=hidden -fno-semantic-interposition
                                         # One instruction instead of a call on every launch; the few bytes fit
                                         # in what is kept free for libraries that are loaded late.
                                         -ftls-model=initial-exec)
  if(KERNCAP_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${KERNCAP_SANITIZE} -g -O1)
  endif()
endfunction()

# kerncap_interposes(NAME DEF SOURCES…): the target's dlsym stands in front of glibc's, for the functions of the
# libraries that DEF lists. SOURCES: its own that dlsym calls.
function(kerncap_interposes name def)
  set(common "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../common")
  target_sources(${name} PRIVATE "${common}/foreign.cpp" "${common}/libdl.cpp")
  target_compile_definitions(${name} PRIVATE "KERNCAP_FOREIGN_DEF=\"${def}\"")
  if(KERNCAP_SANITIZE)
    # The sanitizer's own start asks dlsym for what it wraps, and is answered by these.
    set_source_files_properties("${common}/foreign.cpp" "${common}/libdl.cpp" ${ARGN}
                                PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all")
  endif()
endfunction()

# kerncap_shim(NAME INCLUDE SOURCES…): a shared library that is loaded into somebody else's process.
function(kerncap_shim name vendor_include)
  add_library(${name} SHARED ${ARGN})
  kerncap_compiled(${name} "${vendor_include}")
  # -Bsymbolic-functions: our own pointers to what we export are ours, whoever else defines the name.
  # nodelete: what was handed out as a pointer must stay. exclude-libs: the C++ library's symbols stay
  # inside. Lazy binding: a process that calls none of these functions resolves none of ours.
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,-z,nodelete -Wl,--exclude-libs,ALL
                                      -Wl,-Bsymbolic-functions -Wl,-z,lazy)
  if(KERNCAP_SANITIZE)
    # The runtime comes with the program; it must be the first library, and it resolves the rest.
    target_link_options(${name} PRIVATE -fsanitize=${KERNCAP_SANITIZE} -Wl,-z,undefs)
  else()
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  # Before glibc 2.34 the functions are in these, so they are needed by name, though here they are empty
  # (and a plain -lpthread would mean an empty archive).
  target_link_options(${name} PRIVATE -Wl,--no-as-needed)
  target_link_libraries(${name} PRIVATE -l:libpthread.so.0 -l:libdl.so.2)
endfunction()
