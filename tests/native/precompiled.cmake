# precompile(TARGET): the headers that most of the shims' files include, compiled once for the target. They take a
# third of the time of a test's build; the shims themselves are built without. Where there is a sanitizer, not all of
# a target's files are compiled with it: they can't share.
function(precompile target)
  if(KERNCAP_SANITIZE)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <atomic> <cstring> <deque> <functional> <map> <memory>
                            <mutex> <set> <string> <thread> <unordered_map> <vector>)
  # It declares functions of the C library again, with another visibility, and has to be the first to.
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "/glibc_floor\\.cpp$")
  set_source_files_properties(${sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
