#include "common/glibc_floor.h"

#include "cuda/printed.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "common/loaded.h"
#include "cuda/interpose.h"

namespace kerncap::cuda::printed {
namespace {

constexpr size_t most_held = 64U << 20;  // more is written at once, and no launch's any more

// What kernels print now: the target's, before and between launches that are captured; one of those; what it
// prints when it is made again.
enum class Whose : uint8_t { targets, launch, again };

// What this thread does.
enum class Role : uint8_t { none, holds, has_begun };

// As the driver writes: what is in the stream's buffer comes after what goes to the descriptor.
enum class Way : uint8_t { stream, descriptor };

struct State {
  std::mutex mutex;  // never held while anything is written: the driver may hold the stream
  unsigned holders = 0;
  Whose whose = Whose::targets;
  std::string held;        // in the order in which the driver wrote it
  bool has_grown = false;  // since the last mark
  std::string launch;      // its text
  bool is_whole = true;    // is it
  unsigned marks = 0;      // that the driver has to write
  Way way = Way::stream;   // that of the last text
};
std::atomic<bool> is_idle{true};  // no holders, no marks
thread_local Role role = Role::none;

State& state() noexcept {
  alignas(State) static unsigned char storage[sizeof(State)];
  static State* made = new (storage) State;  // never destroyed: the driver writes until the end
  return *made;
}

// The driver has a thread that looks every 100 ms, as does who captures: neither is the target, which sees
// what it waits for itself at once.
bool is_kept_back(const State& all) noexcept {
  return all.holders > 0 && (role != Role::none || !is_thread_of_target());
}

void settle(const State& all) noexcept {
  is_idle.store(all.holders == 0 && all.marks == 0, std::memory_order_release);
}

size_t write_through(std::string_view text, Way way) noexcept {
  if (way == Way::stream) return text.empty() ? 0 : fwrite(text.data(), 1, text.size(), stdout);
  size_t done = 0;
  while (done < text.size()) {
    ssize_t count = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

// Puts into `now` what is to be written, if the driver writes `text`.
void sort(std::string_view text, Way way, std::string* now) {
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.way = way;
  for (; all.marks > 0 && !text.empty() && text[0] == mark; --all.marks) text.remove_prefix(1);
  if (all.whose == Whose::again) return;
  if (all.whose == Whose::launch) {
    all.is_whole = all.is_whole && all.launch.size() + text.size() <= most_held;
    if (all.is_whole) all.launch.append(text);
  }
  if (is_kept_back(all) && all.held.size() + text.size() <= most_held) {
    all.held.append(text);
    all.has_grown = all.has_grown || !text.empty();
    return;
  }
  now->swap(all.held);
  now->append(text);
  settle(all);
}

// Writes it, or keeps it. False: neither.
bool takes(std::string_view text, Way way = Way::stream) noexcept {
  if (is_idle.load(std::memory_order_acquire) || text.empty()) return false;
  try {
    std::string now;
    sort(text, way, &now);
    write_through(now, way);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool is_output(FILE* stream) noexcept {
  return stream == stdout && !is_idle.load(std::memory_order_acquire);
}

// --- what the driver calls in place of the C library's --------------------------------------------------

int print_list(FILE* stream, const char* format, va_list values) noexcept {
  if (!is_output(stream)) return vfprintf(stream, format, values);
  va_list again;
  va_copy(again, values);
  char few[1024];
  int size = vsnprintf(few, sizeof few, format, again);
  va_end(again);
  if (size < 0) return size;
  if (static_cast<size_t>(size) < sizeof few) {
    std::string_view text(few, static_cast<size_t>(size));
    return takes(text) ? size : static_cast<int>(write_through(text, Way::stream));
  }
  char* many = new (std::nothrow) char[static_cast<size_t>(size) + 1];
  if (many == nullptr) return vfprintf(stream, format, values);
  vsnprintf(many, static_cast<size_t>(size) + 1, format, values);
  std::string_view text(many, static_cast<size_t>(size));
  if (!takes(text)) write_through(text, Way::stream);
  delete[] many;
  return size;
}

__attribute__((format(printf, 1, 2))) int on_printf(const char* format, ...) {
  va_list values;
  va_start(values, format);
  int result = print_list(stdout, format, values);
  va_end(values);
  return result;
}

__attribute__((format(printf, 2, 3))) int on_fprintf(FILE* stream, const char* format, ...) {
  va_list values;
  va_start(values, format);
  int result = print_list(stream, format, values);
  va_end(values);
  return result;
}

int on_vfprintf(FILE* stream, const char* format, va_list values) {
  return print_list(stream, format, values);
}

int on_vprintf(const char* format, va_list values) {
  return print_list(stdout, format, values);
}

int on_fputs(const char* text, FILE* stream) {
  return is_output(stream) && takes(text) ? 1 : fputs(text, stream);
}

int on_fputc(int character, FILE* stream) {
  auto byte = static_cast<char>(character);
  return is_output(stream) && takes({&byte, 1}) ? static_cast<unsigned char>(byte) : fputc(character, stream);
}

int on_putchar(int character) {
  return on_fputc(character, stdout);
}

int on_puts(const char* text) {
  if (!is_output(stdout)) return puts(text);
  return on_fputs(text, stdout) < 0 ? EOF : on_fputc('\n', stdout);
}

size_t on_fwrite(const void* data, size_t size, size_t count, FILE* stream) {
  if (!is_output(stream)) return fwrite(data, size, count, stream);
  return takes({static_cast<const char*>(data), size * count}) ? count : fwrite(data, size, count, stream);
}

// As if nothing had been written yet. What the target has in the stream's buffer would go out, too.
int on_fflush(FILE* stream) {
  if (is_output(stream)) {
    State& all = state();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (is_kept_back(all)) return 0;
  }
  return fflush(stream);
}

ssize_t on_write(int descriptor, const void* data, size_t size) {
  return descriptor == STDOUT_FILENO && takes({static_cast<const char*>(data), size}, Way::descriptor)
             ? static_cast<ssize_t>(size)
             : write(descriptor, data, size);
}

struct Route {
  const char* name;
  void* function;
};

const Route routes[] = {
    {"printf", reinterpret_cast<void*>(on_printf)},     {"fprintf", reinterpret_cast<void*>(on_fprintf)},
    {"vfprintf", reinterpret_cast<void*>(on_vfprintf)}, {"vprintf", reinterpret_cast<void*>(on_vprintf)},
    {"fputs", reinterpret_cast<void*>(on_fputs)},       {"fputc", reinterpret_cast<void*>(on_fputc)},
    {"putc", reinterpret_cast<void*>(on_fputc)},        {"_IO_putc", reinterpret_cast<void*>(on_fputc)},
    {"putchar", reinterpret_cast<void*>(on_putchar)},   {"puts", reinterpret_cast<void*>(on_puts)},
    {"fwrite", reinterpret_cast<void*>(on_fwrite)},     {"fflush", reinterpret_cast<void*>(on_fflush)},
    {"write", reinterpret_cast<void*>(on_write)},
};

void* route_of(const char* name) noexcept {
  for (const Route& route : routes)
    if (loaded::same_text(route.name, name)) return route.function;
  return nullptr;
}

// The driver is never unloaded, so once is enough.
bool is_routed() noexcept {
  static const bool routed = loaded::any([](const loaded::Object& object) {
    if (!object.is_library("libcuda.so")) return false;
    redirect_imports(object, route_of);
    return true;
  });
  return routed;
}

}  // namespace

void hold() noexcept {
  if (role != Role::none || !is_routed()) return;
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  role = Role::holds;
  ++all.holders;
  settle(all);
}

bool begin() noexcept {
  if (role != Role::holds) return false;
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  role = Role::has_begun;
  all.whose = Whose::launch;
  all.launch.clear();
  all.is_whole = true;
  return true;
}

std::string take() {
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.whose = Whose::again;
  return all.is_whole ? std::move(all.launch) : std::string();
}

bool end() noexcept {
  if (role == Role::none) return false;
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (role == Role::has_begun) all.whose = Whose::targets;
  role = Role::none;
  --all.holders;
  const bool needs_mark = all.holders == 0 && !all.held.empty() && (all.marks == 0 || all.has_grown);
  if (needs_mark) all.has_grown = false;
  all.marks += needs_mark;
  settle(all);
  return needs_mark;
}

void write_now() noexcept {
  State& all = state();
  std::string now;
  Way way;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    way = all.way;
    all.marks -= all.marks != 0;  // the one that could not be printed
    settle(all);
    now.swap(all.held);
  }
  write_through(now, way);
  if (way == Way::stream) fflush(stdout);  // as the driver does
}

void reset_after_fork() noexcept {
  role = Role::none;
  new (&state()) State;  // its mutex may have been another thread's
  settle(state());
}

}  // namespace kerncap::cuda::printed
