// Code objects and executables.
#include "common/gate.h"
#include "hip/images.h"
#include "hip/kernel_objects.h"
#include "hip/tables.h"

namespace kerncap::hip {

Status wrap::hsa_code_object_reader_create_from_file(int file, Reader* reader) noexcept {
  Status status = real().hsa_code_object_reader_create_from_file(file, reader);
  if (status == constant::success && reader != nullptr) note_reader(*reader, image_of_file(file));
  return status;
}

Status wrap::hsa_code_object_reader_create_from_memory(const void* bytes, size_t size,
                                                       Reader* reader) noexcept {
  Status status = real().hsa_code_object_reader_create_from_memory(bytes, size, reader);
  if (status == constant::success && reader != nullptr) note_reader(*reader, image_of(bytes, size));
  return status;
}

Status wrap::hsa_code_object_reader_destroy(Reader reader) noexcept {
  forget_reader(reader);
  return real().hsa_code_object_reader_destroy(reader);
}

Status wrap::hsa_executable_load_agent_code_object(Executable executable, Agent agent, Reader reader,
                                                   const char* options, LoadedObject* object) noexcept {
  Status status = real().hsa_executable_load_agent_code_object(executable, agent, reader, options, object);
  if (status == constant::success) note_loaded(executable, agent, reader);
  return status;
}

Status wrap::hsa_executable_freeze(Executable executable, const char* options) noexcept {
  Status status = real().hsa_executable_freeze(executable, options);
  if (status == constant::success) note_executable(executable);
  return status;
}

Status wrap::hsa_executable_destroy(Executable executable) noexcept {
  gate::Pass pass;
  forget_executable(executable);
  return real().hsa_executable_destroy(executable);
}

}  // namespace kerncap::hip
