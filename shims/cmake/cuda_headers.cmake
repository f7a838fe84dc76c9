# Sets KERNCAP_CUDA_INCLUDE to a folder with cuda.h: a toolkit's, or that of NVIDIA's header wheel in
# the Python that builds. Only declarations are used: nothing of CUDA is linked.
set(KERNCAP_CUDA_INCLUDE "" CACHE PATH "folder with cuda.h")
# The folder that a build of pip's found may have been in an environment that is gone.
if(NOT EXISTS "${KERNCAP_CUDA_INCLUDE}/cuda.h")
  set(hints)
  find_package(Python COMPONENTS Interpreter QUIET)
  if(Python_EXECUTABLE)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
              "import importlib.util, os\ns = importlib.util.find_spec('nvidia')\nprint(';'.join(os.path.join(p, 'cu13', 'include') for p in (s.submodule_search_locations if s else ())))"
      OUTPUT_VARIABLE hints
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_path(found_cuda_include cuda.h
            HINTS ${hints} ENV CUDA_HOME ENV CUDA_PATH
            PATHS /usr/local/cuda /usr/local/cuda-13.0
            PATH_SUFFIXES include
            NO_CACHE)
  if(found_cuda_include)
    # /usr/include/linux/cuda.h is another thing; find_path with PATH_SUFFIXES never meets it.
    set(KERNCAP_CUDA_INCLUDE "${found_cuda_include}" CACHE PATH "folder with cuda.h" FORCE)
  endif()
endif()
