#include "common/runtime_programs.h"

#include <map>
#include <mutex>
#include <new>

#include "common/glibc_floor.h"
#include "common/json.h"

namespace kerncap {

std::string json_of(const RuntimeProgram& program) {
  json::Writer json;
  json.begin_object().field(key::name, program.name).field(key::source, program.source);
  json.key(key::headers).begin_object();
  for (const auto& [name, text] : program.headers) json.member(name).value(text);
  json.end().key(key::options).begin_array();
  for (const std::string& option : program.options) json.value(option);
  json.end().key(key::lowered).begin_object();
  for (const auto& [expression, name] : program.lowered) json.member(expression).value(name);
  return json.end().end().text();
}

namespace programs {
namespace {

struct Open {
  std::mutex mutex;
  std::map<Handle, RuntimeProgram> programs;
};

// Never destroyed: programs are compiled until the process ends.
Open& open() noexcept {
  static auto* instance = new Open;
  return *instance;
}

std::string text(const char* value) {
  return value == nullptr ? std::string() : std::string(value);
}

// Where memory is short, the source stays unknown.
template <typename Change>
void change(Handle handle, Change&& apply) noexcept try {
  Open& all = open();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.programs.find(handle);
  if (found != all.programs.end()) apply(found->second);
} catch (const std::bad_alloc&) {
}

}  // namespace

void created(Handle handle, const char* source, const char* name, int count, const char* const* headers,
             const char* const* names) noexcept try {
  RuntimeProgram fresh;
  fresh.source = text(source);
  fresh.name = text(name);
  for (int i = 0; i < count && headers != nullptr && names != nullptr; ++i)
    fresh.headers.emplace_back(text(names[i]), text(headers[i]));
  Open& all = open();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.programs[handle] = std::move(fresh);
} catch (const std::bad_alloc&) {
}

void destroyed(Handle handle) noexcept {
  Open& all = open();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.programs.erase(handle);
}

void compiling(Handle handle, int count, const char* const* options) noexcept {
  change(handle, [&](RuntimeProgram& known) {
    known.options.clear();
    for (int i = 0; i < count && options != nullptr; ++i) known.options.push_back(text(options[i]));
  });
}

void expression_added(Handle handle, const char* expression) noexcept {
  change(handle, [&](RuntimeProgram& known) { known.lowered.emplace_back(text(expression), ""); });
}

void lowered(Handle handle, const char* expression, const char* mangled) noexcept {
  change(handle, [&](RuntimeProgram& known) {
    for (auto& [known_expression, name] : known.lowered)
      if (known_expression == text(expression)) name = text(mangled);
  });
}

bool find(Handle handle, RuntimeProgram* program) noexcept {
  bool found = false;
  change(handle, [&](RuntimeProgram& known) {
    *program = known;
    found = true;
  });
  return found;
}

void lock() noexcept {
  open().mutex.lock();
}
void unlock() noexcept {
  open().mutex.unlock();
}

}  // namespace programs
}  // namespace kerncap
