# The HIP shim, also built by tests/native/hip over a runtime of its own.
set(KERNCAP_HIP_SOURCES)
foreach(name
        agents code_objects copies device device_copies device_queues device_times elf_symbols exports faults
        fork images load packets queues tables wrappers_code wrappers_copy wrappers_memory wrappers_queue)
  list(APPEND KERNCAP_HIP_SOURCES "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
