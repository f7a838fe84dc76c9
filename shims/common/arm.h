// The page by which `kerncap arm` speaks to processes that run (docs/session.md, Arming).
#ifndef KERNCAP_COMMON_ARM_H
#define KERNCAP_COMMON_ARM_H

#include <atomic>
#include <cstdint>
#include <string>

namespace kerncap::arm {

extern const std::atomic<uint64_t>* page;  // the session's, or a word of our own that never changes
extern std::atomic<uint64_t> seen;         // the generation that this process follows

// Maps `<folder>/arm`; false if that file is missing. Never unmapped: launches read it until the end.
bool watch(const std::string& folder) noexcept;
bool is_watched() noexcept;

inline bool has_changed() noexcept {
  return page->load(std::memory_order_relaxed) != seen.load(std::memory_order_relaxed);
}
inline uint64_t generation() noexcept {
  return page->load(std::memory_order_acquire);
}

}  // namespace kerncap::arm

#endif  // KERNCAP_COMMON_ARM_H
