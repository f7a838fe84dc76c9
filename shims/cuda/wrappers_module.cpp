// Images as they are loaded, and the kernels that the target takes from them.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/graphs.h"
#include "cuda/images.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

// The image is looked at after the driver took it: bytes that are no image never reach this.
CUresult module_loaded(CUresult result, const CUmodule* module, const void* image) noexcept {
  if (result == CUDA_SUCCESS && module != nullptr) note_module(*module, image_of(image));
  // A library may have come with it that the preload does not reach.
  patch_import_tables();
  return result;
}

// Loading and unloading may wait for an idle device, and so may a kernel that is asked for first.
const Driver* driver_of_images() noexcept {
  await_stopped_graphs();
  return driver();
}

}  // namespace

CUresult wrap::cuModuleLoad(CUmodule* module, const char* fname) noexcept {
  CUresult result = driver_of_images()->cuModuleLoad(module, fname);
  if (result == CUDA_SUCCESS && module != nullptr) note_module(*module, image_of_file(fname));
  return result;
}

CUresult wrap::cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  return module_loaded(driver_of_images()->cuModuleLoadData(module, image), module, image);
}

CUresult wrap::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                  CUjit_option* options, void** optionValues) noexcept {
  return module_loaded(
      driver_of_images()->cuModuleLoadDataEx(module, image, numOptions, options, optionValues), module,
      image);
}

CUresult wrap::cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) noexcept {
  return module_loaded(driver_of_images()->cuModuleLoadFatBinary(module, fatCubin), module, fatCubin);
}

CUresult wrap::cuModuleUnload(CUmodule hmod) noexcept {
  await_stopped_graphs();
  gate::Pass pass;
  forget_module(hmod);
  return driver()->cuModuleUnload(hmod);
}

CUresult wrap::cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) noexcept {
  CUresult result = driver_of_images()->cuModuleGetFunction(hfunc, hmod, name);
  if (result == CUDA_SUCCESS && hfunc != nullptr) note_function(*hfunc, hmod, name);
  return result;
}

CUresult wrap::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                 void** jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                 unsigned int numLibraryOptions) noexcept {
  CUresult result =
      driver_of_images()->cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                                            libraryOptions, libraryOptionValues, numLibraryOptions);
  if (result == CUDA_SUCCESS && library != nullptr) note_library(*library, image_of(code));
  patch_import_tables();
  return result;
}

CUresult wrap::cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                     void** jitOptionsValues, unsigned int numJitOptions,
                                     CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                     unsigned int numLibraryOptions) noexcept {
  CUresult result = driver_of_images()->cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues,
                                                              numJitOptions, libraryOptions,
                                                              libraryOptionValues, numLibraryOptions);
  if (result == CUDA_SUCCESS && library != nullptr) note_library(*library, image_of_file(fileName));
  return result;
}

CUresult wrap::cuLibraryUnload(CUlibrary library) noexcept {
  await_stopped_graphs();
  gate::Pass pass;
  forget_library(library);
  return driver()->cuLibraryUnload(library);
}

CUresult wrap::cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) noexcept {
  CUresult result = driver_of_images()->cuLibraryGetKernel(pKernel, library, name);
  if (result == CUDA_SUCCESS && pKernel != nullptr) note_kernel(*pKernel, library, name);
  return result;
}

CUresult wrap::cuLibraryGetModule(CUmodule* pMod, CUlibrary library) noexcept {
  CUresult result = driver_of_images()->cuLibraryGetModule(pMod, library);
  if (result == CUDA_SUCCESS && pMod != nullptr) note_library_module(*pMod, library);
  return result;
}

CUresult wrap::cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) noexcept {
  Kernel* known = kernel_of(reinterpret_cast<CUfunction>(kernel));
  if (known == nullptr || !known->is_loaded.load(std::memory_order_relaxed)) await_stopped_graphs();
  CUresult result = driver()->cuKernelGetFunction(pFunc, kernel);
  if (result == CUDA_SUCCESS && pFunc != nullptr) note_kernel_function(*pFunc, kernel);
  if (result == CUDA_SUCCESS && known != nullptr) known->is_loaded.store(true, std::memory_order_relaxed);
  return result;
}

}  // namespace kerncap::cuda
