#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "check.h"
#include "common/memory_room.h"

using namespace kerncap;

namespace {

constexpr uint64_t nobody = UINT64_MAX;

// A folder like /sys/fs/cgroup.
struct Groups {
  char path[32] = "/tmp/kerncap-groups-XXXXXX";
  Groups() { CHECK(::mkdtemp(path) != nullptr); }
  ~Groups() { CHECK(std::system(("rm -r " + std::string(path)).c_str()) == 0); }
  void put(const std::string& name, const std::string& text) {
    for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
      ::mkdir((std::string(path) + "/" + name.substr(0, at)).c_str(), 0700);
    std::ofstream(std::string(path) + "/" + name) << text;
  }
};

}  // namespace

CASE(memory_room_is_the_least_of_a_group_and_those_above) {
  Groups groups;
  groups.put("job/memory.max", "max\n");
  groups.put("job/memory.current", "900\n");
  groups.put("job/step/memory.max", "1000\n");
  groups.put("job/step/memory.current", "700\n");
  groups.put("job/step/memory.stat", "anon 5\ninactive_file 100\nactive_file 7\n");
  CHECK(left_in_groups("0::/job/step", groups.path) == 400);
  CHECK(left_in_groups("0::/job", groups.path) == nobody);
  groups.put("job/memory.max", "950\n");
  CHECK(left_in_groups("0::/job/step/", groups.path) == 50);
  CHECK(left_in_groups("0::/elsewhere", groups.path) == nobody);
}

CASE(memory_room_of_the_older_groups) {
  Groups groups;
  groups.put("memory/job/memory.limit_in_bytes", "1000\n");
  groups.put("memory/job/memory.usage_in_bytes", "1200\n");
  groups.put("memory/job/memory.stat", "inactive_file 5000\ntotal_inactive_file 500\n");
  CHECK(left_in_groups("4:cpu,memory:/job", groups.path) == 300);
  groups.put("memory/job/memory.stat", "");
  CHECK(left_in_groups("4:memory:/job", groups.path) == 0);
  for (const char* line : {"4:cpu:/job", "4:memoryless:/job", "", "4:memory", "::"})
    CHECK(left_in_groups(line, groups.path) == nobody);
}

CASE(memory_room_is_asked_of_this_machine) {
  uint64_t here = available_memory();
  CHECK(here > 0 && here < nobody);
  CHECK(memory_has_room(0) && !memory_has_room(here));
  CHECK(free_space("/proc/self") == nobody || free_space("/proc/self") == 0);
}
