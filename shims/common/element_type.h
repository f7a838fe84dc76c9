// Floating-point types of parameters: which bits are no finite number.
#ifndef KERNCAP_COMMON_ELEMENT_TYPE_H
#define KERNCAP_COMMON_ELEMENT_TYPE_H

#include <cstdint>
#include <string>

namespace kerncap {

struct ElementType {
  const char* name = "";
  uint32_t size = 0;           // 0: no floating-point type
  uint64_t exponent_mask = 0;  // all of these bits set: infinity or NaN
  uint64_t fraction_mask = 0;  // any of these too: NaN
};

// Of a pointer parameter: "float*", "__half const*", "double2*", "*bf16" (Triton's way).
ElementType pointed_type(const std::string& parameter_type);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_ELEMENT_TYPE_H
