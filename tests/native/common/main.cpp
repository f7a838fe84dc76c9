// common_tests: lists its cases without an argument, runs the named one with one.
#include <cstring>

#include "check.h"

int main(int count, char** arguments) {
  for (check::Case* one = check::Case::first(); one != nullptr; one = one->next) {
    if (count < 2) {
      std::puts(one->name);
    } else if (std::strcmp(one->name, arguments[1]) == 0) {
      one->body();
      return 0;
    }
  }
  return count < 2 ? 0 : 2;
}
