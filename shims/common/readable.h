// Whether this process may read memory that the target gave to a device.
#ifndef KERNCAP_COMMON_READABLE_H
#define KERNCAP_COMMON_READABLE_H

#include <cstdint>

namespace kerncap {

// Host memory that the target may have unmapped without telling the driver, or that only a device may read.
bool is_readable_here(uint64_t base, uint64_t size);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_READABLE_H
