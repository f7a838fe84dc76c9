// Textures, surfaces and mipmapped arrays: which are alive. The driver describes them when a launch is
// captured.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"
#include "cuda/registry_textures.h"

namespace kerncap::cuda {

CUresult wrap::cuArrayDestroy(CUarray hArray) noexcept {
  gate::Pass pass;
  return driver()->cuArrayDestroy(hArray);
}

CUresult wrap::cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) noexcept {
  CUresult result = driver()->cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels);
  if (result == CUDA_SUCCESS) note_mipmapped(*pHandle, numMipmapLevels);
  return result;
}

CUresult wrap::cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray* mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* mipmapDesc) noexcept {
  CUresult result = driver()->cuExternalMemoryGetMappedMipmappedArray(mipmap, extMem, mipmapDesc);
  if (result == CUDA_SUCCESS) note_mipmapped(*mipmap, mipmapDesc->numLevels);
  return result;
}

CUresult wrap::cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                        unsigned int level) noexcept {
  CUresult result = driver()->cuMipmappedArrayGetLevel(pLevelArray, hMipmappedArray, level);
  if (result == CUDA_SUCCESS) note_level(*pLevelArray, hMipmappedArray, level);
  return result;
}

CUresult wrap::cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) noexcept {
  gate::Pass pass;
  forget_mipmapped(hMipmappedArray);
  return driver()->cuMipmappedArrayDestroy(hMipmappedArray);
}

CUresult wrap::cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                 const CUDA_TEXTURE_DESC* pTexDesc,
                                 const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) noexcept {
  CUresult result = driver()->cuTexObjectCreate(pTexObject, pResDesc, pTexDesc, pResViewDesc);
  if (result == CUDA_SUCCESS) note_texture(*pTexObject, false);
  return result;
}

CUresult wrap::cuTexObjectDestroy(CUtexObject texObject) noexcept {
  gate::Pass pass;
  forget_texture(texObject, false);
  return driver()->cuTexObjectDestroy(texObject);
}

CUresult wrap::cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) noexcept {
  CUresult result = driver()->cuSurfObjectCreate(pSurfObject, pResDesc);
  if (result == CUDA_SUCCESS) note_texture(*pSurfObject, true);
  return result;
}

CUresult wrap::cuSurfObjectDestroy(CUsurfObject surfObject) noexcept {
  gate::Pass pass;
  forget_texture(surfObject, true);
  return driver()->cuSurfObjectDestroy(surfObject);
}

// A module's texture or surface reference is there as long as the module: counted once it was asked for.
CUresult wrap::cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) noexcept {
  CUresult result = driver()->cuModuleGetTexRef(pTexRef, hmod, name);
  if (result == CUDA_SUCCESS) note_texture_reference();
  return result;
}

CUresult wrap::cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) noexcept {
  CUresult result = driver()->cuModuleGetSurfRef(pSurfRef, hmod, name);
  if (result == CUDA_SUCCESS) note_texture_reference();
  return result;
}

}  // namespace kerncap::cuda
