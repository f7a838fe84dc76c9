// Small texts: sizes, times, hex, percent encoding, C++ names.
#ifndef KERNCAP_COMMON_TEXT_H
#define KERNCAP_COMMON_TEXT_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerncap {

std::string size_text(uint64_t size_bytes);  // "8 MiB", "1.5 GiB", "12 bytes"
std::string seconds_text(uint64_t ns);       // "0.2 s"
std::string hex(const uint8_t* bytes, size_t count);
std::string address_text(uint64_t address);                                 // "0x7f12…"
std::vector<std::string> split(std::string_view text, char separator);      // empty parts left out
std::vector<std::string> split_all(std::string_view text, char separator);  // all parts
bool parse_u64(std::string_view text, uint64_t* value);

// "void ns::add<float>(float*, int)" -> "ns::add<float>".
std::string without_parameters(const std::string& demangled);
// The same -> {"float*", "int"}; false if the name holds no parameter list.
bool parameter_types(const std::string& demangled, std::vector<std::string>* types);

// The whole of a small file, empty if it can't be read.
std::string read_file(const std::string& path, size_t limit);

uint32_t crc32(const uint8_t* bytes, size_t count) noexcept;
uint64_t hash64(const uint8_t* bytes, size_t count) noexcept;  // for names within a session

}  // namespace kerncap

#endif  // KERNCAP_COMMON_TEXT_H
