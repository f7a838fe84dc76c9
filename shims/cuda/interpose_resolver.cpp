// cuGetProcAddress in both its ABIs, and the runtime's cudaGetDriverEntryPoint: the driver answers first,
// and what it answered is replaced if it is a hooked function.
#include "common/foreign.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"

namespace kerncap::cuda {

CUresult wrap::cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) noexcept {
  CUresult result = driver()->cuGetProcAddress(symbol, pfn, cudaVersion, flags);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = wrapper_for_answer(symbol, *pfn, cudaVersion, flags);
  return result;
}

CUresult wrap::cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* symbolStatus) noexcept {
  CUresult result = driver()->cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = wrapper_for_answer(symbol, *pfn, cudaVersion, flags);
  return result;
}

}  // namespace kerncap::cuda

namespace kerncap {
namespace {

// What the runtime itself asks its driver for; only for an answer that is no exported symbol.
constexpr int runtime_version = 12000;
constexpr unsigned long long per_thread_stream = 2;

void replace(int result, const char* name, void** function, int version, unsigned long long flags) noexcept {
  if (result == 0 && function != nullptr)
    *function = cuda::wrapper_for_answer(name, *function, version, flags);
}

}  // namespace

int ForeignWrap::cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                         int* status) const noexcept {
  int result = next.cudaGetDriverEntryPoint(name, function, flags, status);
  replace(result, name, function, runtime_version, flags);
  return result;
}

int ForeignWrap::cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags,
                                              int* status) const noexcept {
  int result = next.cudaGetDriverEntryPoint_ptsz(name, function, flags, status);
  replace(result, name, function, runtime_version, flags == 0 ? per_thread_stream : flags);
  return result;
}

int ForeignWrap::cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int version,
                                                  unsigned long long flags, int* status) const noexcept {
  int result = next.cudaGetDriverEntryPointByVersion(name, function, version, flags, status);
  replace(result, name, function, static_cast<int>(version), flags);
  return result;
}

int ForeignWrap::cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function,
                                                       unsigned int version, unsigned long long flags,
                                                       int* status) const noexcept {
  int result = next.cudaGetDriverEntryPointByVersion_ptsz(name, function, version, flags, status);
  replace(result, name, function, static_cast<int>(version), flags == 0 ? per_thread_stream : flags);
  return result;
}

}  // namespace kerncap
