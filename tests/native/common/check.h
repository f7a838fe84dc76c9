// Just enough to test with: cases that register themselves, checks that say where they failed.
#ifndef KERNCAP_TESTS_CHECK_H
#define KERNCAP_TESTS_CHECK_H

#include <cstdio>
#include <cstdlib>

namespace check {

struct Case {
  Case(const char* name, void (*body)()) : name(name), body(body), next(first()) { first() = this; }
  static Case*& first() {
    static Case* head = nullptr;
    return head;
  }
  const char* name;
  void (*body)();
  Case* next;
};

[[noreturn]] inline void failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  std::exit(1);
}

}  // namespace check

#define CASE(name)                                   \
  static void name();                                \
  static check::Case registered_##name(#name, name); \
  static void name()

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) check::failed(__FILE__, __LINE__, #condition); \
  } while (false)

#endif  // KERNCAP_TESTS_CHECK_H
