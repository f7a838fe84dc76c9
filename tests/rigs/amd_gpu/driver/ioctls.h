// What the interposed ioctl() hands on. Each returns 0 or a negative errno value.
#ifndef KERNCAP_AMD_GPU_IOCTLS_H
#define KERNCAP_AMD_GPU_IOCTLS_H

namespace amd_gpu {

int kfd_ioctl(unsigned long request, void* arguments);
int drm_ioctl(unsigned ordinal, unsigned long request, void* arguments);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_IOCTLS_H
