// Named ranges that the target has open: each thread's own stack, under those of the whole process.
//
// Names and paths become numbers, so that a launch carries one; their count is bounded, whatever a program
// puts into its names. Nothing here costs a program that opens no range.
#ifndef KERNCAP_COMMON_NVTX_RANGES_H
#define KERNCAP_COMMON_NVTX_RANGES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerncap::ranges {

using Path = uint32_t;  // the open ranges, outermost first; 0: none

// This thread's, per domain (null: the default one). Both give the range's depth in its domain from 0, as
// NVTX has it; `pop` -1 if none is open.
int push(const void* domain, std::string_view name) noexcept;
int pop(const void* domain) noexcept;
// The process's: a number for `end`, never 0.
uint64_t start(std::string_view name) noexcept;
void end(uint64_t range) noexcept;

// At the process's end: this thread's and the process's end here, for the timeline.
void close_all() noexcept;

// Whether somebody tells of ranges in this process, though none may be open.
void are_told() noexcept;
bool is_told() noexcept;

Path here() noexcept;
std::vector<std::string> names_of(Path path);
// Of the same ranges: a number for each, that no other one gets.
std::vector<uint64_t> serials_here();
std::string text_of(Path path);  // "outer/inner"; "" for none

// In the child: the forking thread's ranges stay open, the process's too.
void reset_after_fork() noexcept;

}  // namespace kerncap::ranges

#endif  // KERNCAP_COMMON_NVTX_RANGES_H
