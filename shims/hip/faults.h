// Errors of the device that end the process, or the work on a queue.
#ifndef KERNCAP_HIP_FAULTS_H
#define KERNCAP_HIP_FAULTS_H

#include <string>

#include "hip/hsa_api.h"

namespace kerncap::hip {

// The first error that came; 0: none.
int sticky_error() noexcept;
// What it is, with the address if it is known; of any other status the runtime's text.
std::string status_text(int status);

// Asks to be told of memory faults, once in a runtime's life. Whatever the target asked for stays: the
// runtime tells everybody, and goes by those who say that they have dealt with it. We never do.
void watch_faults() noexcept;
// In place of the target's callback for a queue's errors, which is called after it.
void queue_failed(Status status, HsaQueue* source, void* queue);

// While one lives, an error waits a little, so that its launch can be recorded before the process ends.
class CaptureUnderWay {
 public:
  CaptureUnderWay() noexcept;
  ~CaptureUnderWay() noexcept;
  CaptureUnderWay(const CaptureUnderWay&) = delete;
  CaptureUnderWay& operator=(const CaptureUnderWay&) = delete;
};

void forget_faults() noexcept;

}  // namespace kerncap::hip

#endif  // KERNCAP_HIP_FAULTS_H
