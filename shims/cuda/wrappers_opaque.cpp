// Arrays, textures and surfaces: memory whose layout nobody knows. They are counted, so that a launch
// that could reach one is refused by name.
#include "common/gate.h"
#include "common/glibc_floor.h"
#include "cuda/driver.h"
#include "cuda/interpose.h"
#include "cuda/registry.h"

namespace kerncap::cuda {
namespace {

CUresult counted(CUresult result, OpaqueKind kind, int change) noexcept {
  if (result == CUDA_SUCCESS) count_opaque(kind, change);
  return result;
}

}  // namespace

CUresult wrap::cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) noexcept {
  return counted(driver()->cuArrayCreate_v2(pHandle, pAllocateArray), OpaqueKind::array, 1);
}

CUresult wrap::cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) noexcept {
  return counted(driver()->cuArray3DCreate_v2(pHandle, pAllocateArray), OpaqueKind::array, 1);
}

CUresult wrap::cuArrayDestroy(CUarray hArray) noexcept {
  gate::Pass pass;
  return counted(driver()->cuArrayDestroy(hArray), OpaqueKind::array, -1);
}

CUresult wrap::cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) noexcept {
  return counted(driver()->cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels),
                 OpaqueKind::array, 1);
}

CUresult wrap::cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray* mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* mipmapDesc) noexcept {
  return counted(driver()->cuExternalMemoryGetMappedMipmappedArray(mipmap, extMem, mipmapDesc),
                 OpaqueKind::array, 1);
}

CUresult wrap::cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) noexcept {
  gate::Pass pass;
  return counted(driver()->cuMipmappedArrayDestroy(hMipmappedArray), OpaqueKind::array, -1);
}

CUresult wrap::cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                 const CUDA_TEXTURE_DESC* pTexDesc,
                                 const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) noexcept {
  CUresult result = driver()->cuTexObjectCreate(pTexObject, pResDesc, pTexDesc, pResViewDesc);
  if (result == CUDA_SUCCESS && pTexObject != nullptr) note_opaque_object(*pTexObject, true);
  return counted(result, OpaqueKind::texture, 1);
}

CUresult wrap::cuTexObjectDestroy(CUtexObject texObject) noexcept {
  note_opaque_object(texObject, false);
  return counted(driver()->cuTexObjectDestroy(texObject), OpaqueKind::texture, -1);
}

CUresult wrap::cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) noexcept {
  CUresult result = driver()->cuSurfObjectCreate(pSurfObject, pResDesc);
  if (result == CUDA_SUCCESS && pSurfObject != nullptr) note_opaque_object(*pSurfObject, true);
  return counted(result, OpaqueKind::surface, 1);
}

CUresult wrap::cuSurfObjectDestroy(CUsurfObject surfObject) noexcept {
  note_opaque_object(surfObject, false);
  return counted(driver()->cuSurfObjectDestroy(surfObject), OpaqueKind::surface, -1);
}

// A module's texture or surface reference is there as long as the module: counted once it was asked for.
CUresult wrap::cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) noexcept {
  return counted(driver()->cuModuleGetTexRef(pTexRef, hmod, name), OpaqueKind::texture, 1);
}

CUresult wrap::cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) noexcept {
  return counted(driver()->cuModuleGetSurfRef(pSurfRef, hmod, name), OpaqueKind::surface, 1);
}

}  // namespace kerncap::cuda
