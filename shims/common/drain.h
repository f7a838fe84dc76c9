// A drain: the wait until the device is idle, while the gate is closed.
#ifndef KERNCAP_COMMON_DRAIN_H
#define KERNCAP_COMMON_DRAIN_H

#include <string>

#include "common/device.h"
#include "common/process_capture.h"

namespace kerncap {

// Waits until all that the process queued has ended, for whoever has the gate closed. If that takes long,
// other threads pass the gate one by one, since it may wait for what they do; `let_through` then says which
// did. `what`, if it does not end: what is still busy, and who may be waited for.
Poll drain_device(ProcessCapture& process, Device& device, std::string* what, std::string* let_through);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_DRAIN_H
