# The interposition side of the CUDA shim, also built by tests/native/routes over a capture of its own.
set(KERNCAP_HOOK_SOURCES)
foreach(name
        cubin driver foreign fork graph_launch graph_nodes images interpose interpose_dlsym interpose_got
        interpose_resolver loaded nvrtc parameters registry registry_streams wrappers_copy wrappers_cupti wrappers_graph
        wrappers_launch wrappers_link wrappers_memory wrappers_module wrappers_opaque wrappers_stream)
  list(APPEND KERNCAP_HOOK_SOURCES "${CMAKE_CURRENT_LIST_DIR}/${name}.cpp")
endforeach()
