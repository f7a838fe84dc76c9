// The stream of a call: its last argument, if it has one. For wrappers that hooks.def expands to.
#ifndef KERNCAP_CUDA_LAST_STREAM_H
#define KERNCAP_CUDA_LAST_STREAM_H

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "cuda/stream_order.h"

namespace kerncap::cuda {

struct OfStream {
  bool has_one = false;
  CUstream stream = nullptr;
};

template <typename First, typename... Rest>
constexpr OfStream last_stream(const First& first, const Rest&... rest) noexcept {
  if constexpr (sizeof...(Rest) != 0)
    return last_stream(rest...);
  else if constexpr (std::is_same_v<First, CUstream>)
    return {true, first};
  else
    return {};
}

// Whether the name is that of the per-thread default stream: `_ptsz` or `_ptds`.
constexpr bool is_per_thread(std::string_view symbol) noexcept {
  std::string_view end = symbol.substr(symbol.size() - std::min<size_t>(symbol.size(), 5));
  return end == "_ptsz" || end == "_ptds";
}

// `result` itself.
inline CUresult noted_on(OfStream of, stream_order::Call call, std::string_view symbol,
                         CUresult result) noexcept {
  if (!stream_order::recording.load(std::memory_order_relaxed) || result != CUDA_SUCCESS) return result;
  if (of.has_one)
    stream_order::note(call, of.stream, is_per_thread(symbol));
  else
    stream_order::note(call);
  return result;
}

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_LAST_STREAM_H
