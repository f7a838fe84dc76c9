// With --timeline: when launches, copies and ranges ran, kept until a TIMELINE record has them.
//
// A lock of its own, held across no call: times also come in on threads of a vendor's profiler.
#ifndef KERNCAP_COMMON_TIMELINE_H
#define KERNCAP_COMMON_TIMELINE_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/json.h"
#include "common/launch.h"

namespace kerncap {

// On the clock of now_ns(), which all processes of a machine share. A start of 0: only the length is known.
struct Span {
  uint64_t start_ns = 0, end_ns = 0;
  uint64_t length_ns() const noexcept { return end_ns - start_ns; }
};

namespace timeline {

constexpr size_t most_events = 1U << 18, most_things = 1U << 15;  // of a process

// Things that happen repeatedly, each recorded once. A number below zero: none.
struct Thing {
  const char* kind;  // word::timed
  std::string name, config, stream;
  int64_t device = -1, thread = -1, graph = -1;
  Dim3 grid{}, block{};  // of a launch
};
using ThingNumber = uint32_t;

void turn_on() noexcept;
bool is_on() noexcept;
// Equal things have one number. Throws std::bad_alloc.
ThingNumber meet(const Thing& thing);
// What has no start, or finds no room, is left out.
void add(ThingNumber thing, const Span& span, uint64_t bytes = 0) noexcept;
// Whether as much has come together as one record should hold.
bool is_due() noexcept;
// The payload of a record of what is new; false if nothing is.
bool write(json::Writer& json);
void reset_after_fork() noexcept;

}  // namespace timeline
}  // namespace kerncap

#endif  // KERNCAP_COMMON_TIMELINE_H
