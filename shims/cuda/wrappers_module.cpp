// Images as they are loaded, and the kernels that the target takes from them.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
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

}  // namespace

CUresult wrap::cuModuleLoad(CUmodule* module, const char* fname) noexcept {
  CUresult result = driver()->cuModuleLoad(module, fname);
  if (result == CUDA_SUCCESS && module != nullptr) note_module(*module, image_of_file(fname));
  return result;
}

CUresult wrap::cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  return module_loaded(driver()->cuModuleLoadData(module, image), module, image);
}

CUresult wrap::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                  CUjit_option* options, void** optionValues) noexcept {
  return module_loaded(driver()->cuModuleLoadDataEx(module, image, numOptions, options, optionValues), module,
                       image);
}

CUresult wrap::cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) noexcept {
  return module_loaded(driver()->cuModuleLoadFatBinary(module, fatCubin), module, fatCubin);
}

CUresult wrap::cuModuleUnload(CUmodule hmod) noexcept {
  gate::Pass pass;
  forget_module(hmod);
  return driver()->cuModuleUnload(hmod);
}

CUresult wrap::cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) noexcept {
  CUresult result = driver()->cuModuleGetFunction(hfunc, hmod, name);
  if (result == CUDA_SUCCESS && hfunc != nullptr) note_function(*hfunc, hmod, name);
  return result;
}

CUresult wrap::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                 void** jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                 unsigned int numLibraryOptions) noexcept {
  CUresult result = driver()->cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                                                libraryOptions, libraryOptionValues, numLibraryOptions);
  if (result == CUDA_SUCCESS && library != nullptr) note_library(*library, image_of(code));
  patch_import_tables();
  return result;
}

CUresult wrap::cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                     void** jitOptionsValues, unsigned int numJitOptions,
                                     CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                     unsigned int numLibraryOptions) noexcept {
  CUresult result =
      driver()->cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                      libraryOptions, libraryOptionValues, numLibraryOptions);
  if (result == CUDA_SUCCESS && library != nullptr) note_library(*library, image_of_file(fileName));
  return result;
}

CUresult wrap::cuLibraryUnload(CUlibrary library) noexcept {
  gate::Pass pass;
  forget_library(library);
  return driver()->cuLibraryUnload(library);
}

CUresult wrap::cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) noexcept {
  CUresult result = driver()->cuLibraryGetKernel(pKernel, library, name);
  if (result == CUDA_SUCCESS && pKernel != nullptr) note_kernel(*pKernel, library, name);
  return result;
}

CUresult wrap::cuLibraryGetModule(CUmodule* pMod, CUlibrary library) noexcept {
  CUresult result = driver()->cuLibraryGetModule(pMod, library);
  if (result == CUDA_SUCCESS && pMod != nullptr) note_library_module(*pMod, library);
  return result;
}

CUresult wrap::cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) noexcept {
  CUresult result = driver()->cuKernelGetFunction(pFunc, kernel);
  if (result == CUDA_SUCCESS && pFunc != nullptr) note_kernel_function(*pFunc, kernel);
  return result;
}

}  // namespace kerncap::cuda
