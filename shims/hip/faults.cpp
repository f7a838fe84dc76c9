#include "hip/faults.h"

#include <atomic>
#include <new>

#include "common/capture.h"
#include "common/clock.h"
#include "common/device.h"
#include "common/gate.h"
#include "common/text.h"
#include "hip/agents.h"
#include "hip/queues.h"
#include "hip/tables.h"

namespace kerncap {

bool is_fault(int status) noexcept {
  switch (status) {
    case hip::constant::error_memory_aperture_violation:
    case hip::constant::error_illegal_instruction:
    case hip::constant::error_memory_fault:
    case hip::constant::error_exception:
      return true;
    default:
      // What a queue reports ends that queue, whatever it is.
      return status != 0 && status == hip::sticky_error();
  }
}

namespace hip {
namespace {

constexpr uint64_t patience_ns = 2 * second_ns;

struct Error {
  std::atomic<int> status{0};
  std::atomic<bool> has_address{false};
  std::atomic<uint64_t> address{0};
  std::atomic<uint32_t> reasons{0};
};
Error first;
std::atomic<bool> watching{false};
std::atomic<int> captures{0};

bool note(int status) noexcept {
  int none = 0;
  return first.status.compare_exchange_strong(none, status);
}

// The process is about to end: what is being captured gets its record first.
void let_captures_end(int status) noexcept {
  uint64_t deadline = now_ns() + patience_ns;
  for (Backoff backoff; captures.load() != 0 && now_ns() < deadline;) backoff.pause();
  capture::after_call(status);
}

const char* reason_text(uint32_t reasons) noexcept {
  // Source: hsa_amd_memory_fault_reason_t.
  if ((reasons & 1U) != 0) return "page not present";
  if ((reasons & 2U) != 0) return "write to a read-only page";
  if ((reasons & 4U) != 0) return "execution of a page that is not code";
  if ((reasons & 8U) != 0) return "access to a page of the host's";
  return "unknown reason";
}

Status on_event(const SystemEvent* event, void*) {
  if (event == nullptr || event->event_type != constant::event_memory_fault) return constant::error;
  first.address.store(event->memory_fault.virtual_address);
  first.reasons.store(event->memory_fault.fault_reason_mask);
  first.has_address.store(true);
  note(constant::error_memory_fault);
  let_captures_end(constant::error_memory_fault);
  return constant::error;  // not dealt with
}

}  // namespace

int sticky_error() noexcept {
  return first.status.load(std::memory_order_acquire);
}

std::string status_text(int status) {
  if (status == constant::error_memory_fault && first.has_address.load())
    return std::string("HSA_STATUS_ERROR_MEMORY_FAULT: memory access fault at ") +
           address_text(first.address.load()) + " (" + reason_text(first.reasons.load()) + ")";
  const char* text = nullptr;
  gate::Own own;
  if (const Hsa* real = hsa()) real->hsa_status_string(status, &text);
  std::string number = "HSA status " + std::to_string(status);
  return text != nullptr ? number + ": " + text : number;
}

void watch_faults() noexcept {
  const Hsa* real = hsa();
  if (real == nullptr || real->hsa_amd_register_system_event_handler == nullptr) return;
  if (watching.exchange(true)) return;
  gate::Own own;
  real->hsa_amd_register_system_event_handler(on_event, nullptr);
}

void queue_failed(Status status, HsaQueue* source, void* data) {
  const auto& queue = *static_cast<const Queue*>(data);
  if (status != constant::success) {
    note(status);
    let_captures_end(status);
  }
  if (queue.on_error != nullptr) queue.on_error(status, source, queue.error_data);
}

CaptureUnderWay::CaptureUnderWay() noexcept {
  captures.fetch_add(1);
}
CaptureUnderWay::~CaptureUnderWay() noexcept {
  captures.fetch_sub(1);
}

void forget_faults() noexcept {
  first.status.store(0);
  first.has_address.store(false);
  watching.store(false);
  captures.store(0);
}

}  // namespace hip
}  // namespace kerncap
