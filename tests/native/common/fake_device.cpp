#include "fake_device.h"

FakeDevice& fake_device() {
  static FakeDevice device;
  return device;
}

namespace kerncap {

Device* device() noexcept {
  return &fake_device();
}
const char* shim_name() noexcept {
  return "cuda";
}
bool is_fault(int status) noexcept {
  return status == fake_fault;
}

}  // namespace kerncap
