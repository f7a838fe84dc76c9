// Where a process's libcupti is: loaded already, beside libraries that are, in NVIDIA's wheels of the Python
// that loaded them, in a toolkit.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "common/glibc_floor.h"
#include "common/loaded.h"
#include "cuda/activity.h"

namespace kerncap::cuda::activity {
namespace {

constexpr const char* prefix = "libcupti.so";

std::string library_name(int major) {
  return std::string(prefix) + "." + std::to_string(major);
}

// Folders in which CUPTI of this version may lie, likeliest first.
class Folders {
 public:
  explicit Folders(int major) : major_(major) {}

  void beside(const std::string& path) {
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || path[0] != '/') return;
    std::string folder = path.substr(0, slash);
    if (path.find("/nvidia/") != std::string::npos) {
      add(folder);
      add(folder + "/../../cuda_cupti/lib");
    } else if (path.compare(slash + 1, 4, "libc") == 0 || path.compare(slash + 1, 8, "libnvrtc") == 0) {
      // A toolkit's libcudart, libcublas, libcufft, libnvrtc.
      add(folder);
      add(folder + "/../extras/CUPTI/lib64");
    }
    for (const char* packages : {"/site-packages/", "/dist-packages/"}) {
      size_t at = path.find(packages);
      if (at != std::string::npos) in_packages(path.substr(0, at) + packages);
    }
  }

  void in_toolkit(const char* root) {
    if (root == nullptr || *root == '\0') return;
    for (const char* below : {"/extras/CUPTI/lib64", "/lib64", "/targets/x86_64-linux/lib", "/lib"})
      add(std::string(root) + below);
  }

  const std::vector<std::string>& all() const { return all_; }

 private:
  void in_packages(const std::string& packages) {
    if (major_ >= 13) add(packages + "nvidia/cu" + std::to_string(major_) + "/lib");
    add(packages + "nvidia/cuda_cupti/lib");
    add(packages + "triton/backends/nvidia/lib/cupti");
  }

  void add(const std::string& folder) {
    if (seen_.insert(folder).second) all_.push_back(folder);
  }

  int major_;
  std::set<std::string> seen_;
  std::vector<std::string> all_;
};

template <typename Function>
bool find(const loaded::Object& object, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(object.function(name));
  return *function != nullptr;
}

// By the object's own table: dlsym of these names would give our wrappers.
bool read_functions(const loaded::Object& object, Cupti* cupti) {
  find(object, "cuptiGetResultString", &cupti->cuptiGetResultString);
  find(object, "cuptiGetContextId", &cupti->cuptiGetContextId);
  find(object, "cuptiGetTimestamp", &cupti->cuptiGetTimestamp);
  find(object, "cuptiGetStreamIdEx", &cupti->cuptiGetStreamIdEx);
  return find(object, "cuptiSubscribe", &cupti->cuptiSubscribe) &&
         find(object, "cuptiUnsubscribe", &cupti->cuptiUnsubscribe) &&
         find(object, "cuptiActivityRegisterCallbacks", &cupti->cuptiActivityRegisterCallbacks) &&
         find(object, "cuptiActivityEnable", &cupti->cuptiActivityEnable) &&
         find(object, "cuptiActivityDisable", &cupti->cuptiActivityDisable) &&
         find(object, "cuptiActivityFlushAll", &cupti->cuptiActivityFlushAll) &&
         find(object, "cuptiActivityGetNextRecord", &cupti->cuptiActivityGetNextRecord);
}

bool find_loaded(loaded::Object* found) {
  return loaded::any([&](const loaded::Object& object) {
    if (object.base == loaded::self().base || !object.is_library(prefix)) return false;
    *found = object;
    return true;
  });
}

std::vector<std::string> loaded_paths() {
  std::vector<std::string> paths;
  loaded::any([&](const loaded::Object& object) {
    if (object.path[0] == '/') paths.emplace_back(object.path);
    return false;
  });
  return paths;
}

// It stays for good: CUPTI is not made to be unloaded.
bool open_library(int major, const std::vector<std::string>& paths) {
  Folders folders(major);
  for (const std::string& path : paths) folders.beside(path);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) folders.in_toolkit(std::getenv(name));
  std::string name = library_name(major);
  for (const std::string& folder : folders.all()) {
    std::string path = folder + "/" + name;
    if (::access(path.c_str(), R_OK) == 0 && ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)
      return true;
  }
  if (::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return true;
  Folders usual(major);
  usual.in_toolkit("/usr/local/cuda");
  for (const std::string& folder : usual.all()) {
    std::string path = folder + "/" + name;
    if (::access(path.c_str(), R_OK) == 0 && ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)
      return true;
  }
  return false;
}

}  // namespace

bool find_library(int driver_version, Cupti* cupti, std::string* why) {
  loaded::Object object;
  if (!find_loaded(&object)) {
    std::vector<std::string> paths = loaded_paths();
    // CUPTI works with drivers as new as itself and newer.
    bool opened = (driver_version >= 13000 && open_library(13, paths)) || open_library(12, paths);
    ::dlerror();
    if (!opened || !find_loaded(&object)) {
      *why = "no libcupti was found (pip install nvidia-cuda-cupti, or a CUDA toolkit)";
      return false;
    }
  }
  if (read_functions(object, cupti)) return true;
  *why = std::string(object.path) + " lacks functions of CUPTI's activity API";
  return false;
}

}  // namespace kerncap::cuda::activity
