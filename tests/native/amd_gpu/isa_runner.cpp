// Runs machine code on the instruction side alone. Reads requests from standard input and answers on standard
// output, both binary (isa.py has the other end), until the input ends. --decode TARGET reads code alone and
// prints what it could not decode; --sweep TARGET prints a line for each instruction that libLLVM knows: how
// it is taken, its mnemonic, the bytes of an example and its text.
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "gpu.h"
#include "isa/decode.h"
#include "isa/disassembler.h"
#include "isa/wave.h"
#include "sweep.h"

namespace {

using amd_gpu::u16;
using amd_gpu::u32;
using amd_gpu::u64;
using amd_gpu::u8;

struct Request {
  u32 target, code_bytes, data_bytes, workgroup_size, workgroups, lds_bytes, private_bytes, rsrc1, rsrc2;
};

struct Answer {
  u32 kind, text_bytes;
  u64 pc, address;
  double seconds;
};

// Where things are for the kernel: s[0:1] points at the data's address.
constexpr u64 code_va = 0x100000000, data_va = 0x200000000, kernarg_va = 0x300000000;
constexpr u32 entry_offset = 256;

bool read_all(void* to, size_t bytes) {
  return std::fread(to, 1, bytes, stdin) == bytes;
}

template <class T>
void put(std::vector<u8>& to, size_t at, T value) {
  std::memcpy(&to[at], &value, sizeof value);
}

// A kernel descriptor in front of the code, and behind it room for what a disassembler reads ahead.
std::vector<u8> code_object(const Request& request, const std::vector<u8>& code) {
  std::vector<u8> object(entry_offset + code.size() + 64);
  put<u32>(object, 0, request.lds_bytes);
  put<u32>(object, 4, request.private_bytes);
  put<u64>(object, 16, entry_offset);
  put<u32>(object, 44, 63);  // accum_offset 256
  put<u32>(object, 48, request.rsrc1 | 63);
  put<u32>(object, 52, request.rsrc2 | 2 << 1);
  put<u16>(object, 56, 1 << 3);  // the kernarg pointer
  std::memcpy(&object[entry_offset], code.data(), code.size());
  return object;
}

amd_gpu::Fault run(const Request& request, const std::vector<u8>& code, std::vector<u8>& data) {
  std::vector<u8> object = code_object(request, code), kernarg(64), packet(64);
  put<u64>(kernarg, 0, data_va);
  amd_gpu::PageTable memory;
  memory.map({.device_va = code_va, .size_bytes = object.size(), .host = object.data(), .writable = false});
  memory.map({.device_va = kernarg_va, .size_bytes = kernarg.size(), .host = kernarg.data()});
  if (!data.empty()) memory.map({.device_va = data_va, .size_bytes = data.size(), .host = data.data()});
  put<u16>(packet, 4, static_cast<u16>(request.workgroup_size));
  put<u16>(packet, 6, 1);
  put<u16>(packet, 8, 1);
  put<u32>(packet, 12, request.workgroup_size * request.workgroups);
  put<u32>(packet, 16, 1);
  put<u32>(packet, 20, 1);
  put<u32>(packet, 24, request.private_bytes);
  put<u32>(packet, 28, request.lds_bytes);
  put<u64>(packet, 32, code_va);
  put<u64>(packet, 40, kernarg_va);
  amd_gpu::Dispatch dispatch;
  dispatch.target = amd_gpu::targets[request.target];
  dispatch.memory = &memory;
  dispatch.packet = packet.data();
  dispatch.threads = 4;
  return amd_gpu::run_dispatch(dispatch);
}

int serve() {
  Request request;
  while (read_all(&request, sizeof request)) {
    std::vector<u8> code(request.code_bytes), data(request.data_bytes);
    if (!read_all(code.data(), code.size()) || !read_all(data.data(), data.size())) return 1;
    const std::clock_t start = std::clock();  // of this process: the machine may be busy
    const amd_gpu::Fault fault = run(request, code, data);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const Answer answer{static_cast<u32>(fault.kind), static_cast<u32>(fault.text.size()), fault.pc,
                        fault.address, seconds};
    std::fwrite(&answer, 1, sizeof answer, stdout);
    std::fwrite(fault.text.data(), 1, fault.text.size(), stdout);
    std::fwrite(data.data(), 1, data.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}

int decode_all(amd_gpu::Target target) {
  std::vector<u8> code;
  for (int c; (c = std::getchar()) != EOF;) code.push_back(static_cast<u8>(c));
  bool all = true;
  for (size_t at = 0; at + 4 <= code.size();) {
    const amd_gpu::Disassembled found = amd_gpu::disassemble(target, &code[at], code.size() - at, at);
    try {
      amd_gpu::decode(target, &code[at], code.size() - at, at);
    } catch (const amd_gpu::Stop& stop) {
      std::puts(stop.text.c_str());
      all = false;
    }
    at += found.size_bytes ? found.size_bytes : 4;
  }
  return all ? 0 : 1;
}

int print_sweep(amd_gpu::Target target) {
  constexpr const char* taken[] = {"executed", "partly", "refused"};
  try {
    for (const auto& [name, found] : amd_gpu::sweep(target)) {
      std::string bytes;
      for (const u8 byte : found.bytes)
        bytes += "0123456789abcdef"[byte >> 4], bytes += "0123456789abcdef"[byte & 15];
      std::printf("%s %s %s %s\n", taken[static_cast<unsigned>(found.taken)], name.c_str(), bytes.c_str(),
                  found.text.c_str());
    }
    return 0;
  } catch (const amd_gpu::Stop& stop) {
    std::fprintf(stderr, "%s\n", stop.text.c_str());
    return 1;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (const char* level = std::getenv("AMD_GPU_LOG")) amd_gpu::log_level = std::atoi(level);
  if (count == 1) return serve();
  const std::string option = arguments[1];
  for (const amd_gpu::Target target : amd_gpu::targets) {
    if (count != 3 || std::string(arguments[2]) != amd_gpu::name(target)) continue;
    if (option == "--decode") return decode_all(target);
    if (option == "--sweep") return print_sweep(target);
  }
  return 2;
}
