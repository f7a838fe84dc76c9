// What the launch's kernel prints (printed.h): when the driver is made to write it, and when the target sees
// it.
#include <new>
#include <string>

#include "common/clock.h"
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/device.h"
#include "cuda/printed.h"

namespace kerncap::cuda {
namespace {

// vprintf's functions in the order of the PTX ISA manual: a format, and no values. The mark
// is a module of its own, because the driver makes a ring for each module that prints.
constexpr uint64_t mark_wait_ns = 20'000'000;  // it is late where the target's own work fills the device
static_assert(printed::mark == 1, "as the string below");
constexpr char mark_ptx[] = R"ptx(
.version 6.4
.target sm_52
.address_size 64
.extern .func (.param .b32 status) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[2] = {1, 0};
.visible .entry kerncap_mark()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd1, %rd1;
  mov.u64 %rd2, 0;
  {
    .param .b64 format;
    st.param.b64 [format], %rd1;
    .param .b64 values;
    st.param.b64 [values], %rd2;
    .param .b32 status;
    call.uni (status), vprintf, (format, values);
  }
  ret;
}
)ptx";

}  // namespace

void CudaDevice::hold_text() noexcept {
  printed::hold();
}

// In the midst of other work nothing is waited for.
bool CudaDevice::begin_text() {
  return !is_stopped_ && good(driver()->cuCtxSynchronize()) && printed::begin();
}

void CudaDevice::take_text(std::string* text) {
  bool is_written = good(driver()->cuCtxSynchronize());
  *text = printed::take();
  if (!is_written) text->clear();
}

// A mark in place of what the driver wrote lets the driver say when the target would see it.
void CudaDevice::end_text(const Launch& launch, bool is_idle) noexcept {
  if (is_idle) driver()->cuCtxSynchronize();
  if (!printed::end()) return;
  const bool closes = !gate::is_mine();
  bool is_marked = false;
  if (!closes || gate::close(mark_wait_ns)) {
    try {
      is_marked = print_mark(launch);
    } catch (const std::bad_alloc&) {
      // Then it is not.
    }
    if (closes) gate::open();
  }
  if (!is_marked) printed::write_now();
}

// It has to be printed before the target waits, maybe for another stream, as the launch's text would be.
bool CudaDevice::print_mark(const Launch& launch) {
  std::string why;
  if (is_capturing() || !enter(launch, &why)) return false;
  const Driver& d = *driver();
  Lane* own = lane(launch_device_);
  CUmodule module;
  bool is_good = own != nullptr;
  if (is_good && own->mark == nullptr)
    is_good = d.cuModuleLoadData(&module, mark_ptx) == CUDA_SUCCESS &&
              d.cuModuleGetFunction(&own->mark, module, "kerncap_mark") == CUDA_SUCCESS;
  is_good = is_good &&
            d.cuLaunchKernel(own->mark, 1, 1, 1, 1, 1, 1, 0, own->stream, nullptr, nullptr) == CUDA_SUCCESS;
  const uint64_t deadline = now_ns() + mark_wait_ns;
  for (Backoff backoff; is_good && d.cuStreamQuery(own->stream) == CUDA_ERROR_NOT_READY;) {
    if (now_ns() >= deadline) break;
    backoff.pause();
  }
  leave();
  return is_good;
}

}  // namespace kerncap::cuda
