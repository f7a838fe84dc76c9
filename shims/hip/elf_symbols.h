// Symbols of a code object: an ELF file in memory, which nobody has checked.
#ifndef KERNCAP_HIP_ELF_SYMBOLS_H
#define KERNCAP_HIP_ELF_SYMBOLS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace kerncap::hip {

// The address in the file of the dynamic symbol of this name. False: it has none, or is no whole ELF file.
bool find_symbol(const uint8_t* data, size_t size, const std::string& name, uint64_t* address) noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_ELF_SYMBOLS_H
