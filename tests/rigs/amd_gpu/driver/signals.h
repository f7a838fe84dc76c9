// HSA signals as the packet processor uses them. Source: hsa/amd_hsa_signal.h.
#ifndef KERNCAP_AMD_GPU_SIGNALS_H
#define KERNCAP_AMD_GPU_SIGNALS_H

#include <hsa/amd_hsa_signal.h>

#include <cstdint>

#include "driver.h"

namespace amd_gpu {

// A T in the GPU's memory; null where it is not mapped.
template <class T>
T* device_object(const Device& device, uint64_t va) {
  return reinterpret_cast<T*>(device.pages.translate(va, sizeof(T)));
}

// `loaded` is set to the signal's value. False: the signal is not mapped.
bool load(const Device& device, hsa_signal_t signal, int64_t& loaded);

// What ends a packet: time stamps, one less, and the event of who waits. A null signal is none.
void complete(const Device& device, hsa_signal_t signal, uint64_t start_clock, uint64_t end_clock);

// Stores `value` and wakes who waits.
void store(const Device& device, hsa_signal_t signal, int64_t value);

}  // namespace amd_gpu

#endif  // KERNCAP_AMD_GPU_SIGNALS_H
