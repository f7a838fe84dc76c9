# The CUDA side of the capture: the device, the exports, the mirror of torch's allocator.
set(KERNCAP_ENGINE_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/activity.cpp
    ${CMAKE_CURRENT_LIST_DIR}/activity_library.cpp
    ${CMAKE_CURRENT_LIST_DIR}/activity_records.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device_kernels.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device_marks.cpp
    ${CMAKE_CURRENT_LIST_DIR}/device_streams.cpp
    ${CMAKE_CURRENT_LIST_DIR}/exports.cpp
    ${CMAKE_CURRENT_LIST_DIR}/nvtx.cpp
    ${CMAKE_CURRENT_LIST_DIR}/torch_mirror.cpp)
