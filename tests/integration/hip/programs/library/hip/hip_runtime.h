// Makes this folder a ROCm's include folder.
#include_next <hip/hip_runtime.h>
