// The contract's names for C++: a key, a word or an option that the .def files don't have does not compile.
#ifndef KERNCAP_CONTRACT_CONTRACT_H
#define KERNCAP_CONTRACT_CONTRACT_H

#include <string_view>

namespace kerncap {

// A key of a payload. Made here and nowhere else.
struct Key {
  std::string_view text;
};

namespace key {
#define KERNCAP_OBJECT(name)
#define KERNCAP_KEY(name, type) inline constexpr Key name{#name};
#define KERNCAP_AGAIN(name, type)
#include "contract/payloads.def"
#undef KERNCAP_OBJECT
#undef KERNCAP_KEY
#undef KERNCAP_AGAIN
}  // namespace key

#define KERNCAP_WORD(set, name, text)       \
  namespace word::set {                     \
  inline constexpr const char* name = text; \
  }
#include "contract/words.def"
#undef KERNCAP_WORD

}  // namespace kerncap

#endif  // KERNCAP_CONTRACT_CONTRACT_H
