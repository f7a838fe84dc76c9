#include <thread>
#include <vector>

#include "check.h"
#include "common/last_launches.h"
#include "common/launch.h"

using namespace kerncap;

namespace {

Kernel one, other;

void launch(const Kernel& kernel, void* stream, int times) {
  for (int i = 0; i < times; ++i) last_launches::note(kernel, {1, 2, 3}, {4, 5, 6}, stream);
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

CASE(last_launches_of_all_threads_are_in_order) {
  one.demangled = "one", other.demangled = "other";
  int stream = 0, idle = 0;
  launch(one, &stream, 100);
  std::thread([&] { launch(other, &stream, 1); }).join();
  launch(one, &stream, 1);
  CHECK(last_launches::last_on(&stream) == &one && last_launches::last_on(&idle) == nullptr);
  std::thread([&] { launch(other, &stream, 2); }).join();
  CHECK(last_launches::last_on(&stream) == &other);
  const std::string text = last_launches::describe("broken").text();
  // The last 64, of which the other thread's are the 101st, the 103rd and the 104th.
  CHECK(count(text, "\"index\"") == 64 && count(text, "\"other\"") == 3);
  const std::string end = "\"index\":100},{\"kernel\":\"one\"";
  CHECK(text.find("\"index\":39}") == std::string::npos && text.find("\"index\":40}") != std::string::npos);
  CHECK(text.find(end) != std::string::npos && text.find("\"index\":103}]") != std::string::npos);
  CHECK(text.find("\"grid\":[1,2,3],\"block\":[4,5,6]") != std::string::npos);
  last_launches::reset();
  CHECK(last_launches::last_on(&stream) == nullptr);
}

CASE(launches_of_all_threads_count) {
  LaunchCount counted;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50000; ++k) counted.add(own_line());
    });
  for (std::thread& thread : threads) thread.join();
  // Each is the next owner of a line that an ended thread has left.
  for (int i = 0; i < 20; ++i) std::thread([&] { counted.add(own_line()); }).join();
  counted.add(nullptr);
  CHECK(counted.load() == 200021);
  counted.reset();
  counted.add(own_line());
  CHECK(counted.load() == 1);
}
