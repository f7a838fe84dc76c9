// The driver's linker: its result is an image that the target loads next.
#include <map>
#include <mutex>

#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/images.h"
#include "cuda/interpose.h"

namespace kerncap::cuda {
namespace {

// What goes into a link that NVRTC made: its source is the source of the result.
struct Links {
  std::mutex mutex;
  std::map<CUlinkState, RuntimeProgram> programs;
};

Links& links() noexcept {
  static auto* instance = new Links;
  return *instance;
}

CUresult added(CUresult result, CUlinkState state, const void* data, size_t size) noexcept {
  RuntimeProgram program;
  if (result != CUDA_SUCCESS || !program_of_bytes(data, size, &program)) return result;
  Links& all = links();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.programs.emplace(state, std::move(program));  // the first input is the one with the kernels
  return result;
}

void forget(CUlinkState state) noexcept {
  Links& all = links();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.programs.erase(state);
}

}  // namespace

CUresult wrap::cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                            CUlinkState* stateOut) noexcept {
  CUresult result = driver()->cuLinkCreate(numOptions, options, optionValues, stateOut);
  if (result == CUDA_SUCCESS && stateOut != nullptr) forget(*stateOut);
  return result;
}

CUresult wrap::cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                               CUlinkState* stateOut) noexcept {
  CUresult result = driver()->cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
  if (result == CUDA_SUCCESS && stateOut != nullptr) forget(*stateOut);
  return result;
}

CUresult wrap::cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size,
                             const char* name, unsigned int numOptions, CUjit_option* options,
                             void** optionValues) noexcept {
  return added(driver()->cuLinkAddData(state, type, data, size, name, numOptions, options, optionValues),
               state, data, size);
}

CUresult wrap::cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                                const char* name, unsigned int numOptions, CUjit_option* options,
                                void** optionValues) noexcept {
  return added(driver()->cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues),
               state, data, size);
}

CUresult wrap::cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) noexcept {
  CUresult result = driver()->cuLinkComplete(state, cubinOut, sizeOut);
  if (result != CUDA_SUCCESS || cubinOut == nullptr || sizeOut == nullptr) return result;
  RuntimeProgram program;
  bool compiled = false;
  {
    Links& all = links();
    std::lock_guard<std::mutex> lock(all.mutex);
    auto found = all.programs.find(state);
    compiled = found != all.programs.end();
    if (compiled) program = found->second;
  }
  remember_result(*cubinOut, *sizeOut, compiled ? &program : nullptr, compiled ? "nvrtc" : "linked");
  return result;
}

CUresult wrap::cuLinkDestroy(CUlinkState state) noexcept {
  forget(state);
  return driver()->cuLinkDestroy(state);
}

}  // namespace kerncap::cuda
