#include "common/glibc_floor.h"

#include "common/collective.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "common/clock.h"
#include "common/own_fd.h"
#include "common/rank.h"
#include "common/session_options.h"
#include "common/snapshot_file.h"
#include "common/text.h"

namespace kerncap {
namespace {

constexpr size_t most_marks = 4096;
constexpr size_t mark_bytes = 16;

// One word has it all, so that a step is passed by all or given up for all: who has come to the step, which
// step it is, and, once it is given up, why and because of which rank.
constexpr unsigned step_shift = 48, cause_shift = 52, rank_shift = 56;
constexpr uint64_t arrived_mask = (1ULL << step_shift) - 1;

uint64_t step_of(uint64_t state) {
  return state >> step_shift & 15;
}
uint64_t cause_of(uint64_t state) {
  return state >> cause_shift & 15;
}

// This process's lock in `ranks`. The lock goes with any descriptor of the file that the process closes, so
// there is one only.
struct Membership {
  std::mutex mutex;
  pid_t pid = 0;
  uint64_t rank = 0;
  OwnFd file;
};

Membership& membership() {
  static auto* instance = new Membership;
  return *instance;
}

struct flock byte_of(uint64_t rank) {
  struct flock byte = {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(rank);
  byte.l_len = 1;
  return byte;
}

bool lock(int fd, uint64_t rank) {
  struct flock byte = byte_of(rank);
  return ::fcntl(fd, F_SETLK, &byte) == 0;
}

bool read_bytes(Device& device, int ordinal, uint64_t address, uint8_t* bytes) {
  if (!device.start_read(0, ordinal, address, mark_bytes)) return false;
  for (Backoff backoff;; backoff.pause()) {
    const Poll poll = device.poll(0);
    if (poll == Poll::failed) return false;
    if (poll == Poll::done) break;
  }
  std::memcpy(bytes, device.buffer(0), mark_bytes);
  return true;
}

}  // namespace

struct Collective::Page {
  std::atomic<uint64_t> state;
  std::atomic<uint64_t> marks;
  struct Exported {
    uint64_t base, rank;
    std::atomic<uint64_t> is_imported;
  } exported[most_marks];
};

// Written into the first bytes of exported memory, and taken back.
struct Collective::Mark {
  Allocation* allocation;
  uint64_t number;
  uint8_t before[mark_bytes];
};

Collective::~Collective() {
  if (page_ == nullptr) return;
  uint64_t state = page_->state.load();
  while (cause_of(state) == 0 && step_of(state) <= static_cast<uint64_t>(Step::kept) &&
         !give_up(state, Cause::gave_up, rank_))
    state = page_->state.load();
  ::munmap(page_, sizeof(Page));
}

bool Collective::take_rank(const std::string& folder, std::string* why) {
  Membership& own = membership();
  std::lock_guard<std::mutex> guard(own.mutex);
  const bool is_member = own.pid == ::getpid();
  if (is_member && own.file.is_ours()) {
    rank_ = own.rank;
    return true;
  }
  own.pid = 0;
  own.file = OwnFd(::open((folder + "/ranks").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const int64_t named = rank_here().global;
  if (named >= 0 && static_cast<uint64_t>(named) >= ranks_) {
    *why = "this process is rank " + std::to_string(named) + " of --collective " + std::to_string(ranks_);
    return false;
  }
  const uint64_t first = is_member ? own.rank : named >= 0 ? static_cast<uint64_t>(named) : 0;
  const uint64_t end = is_member || named >= 0 ? first + 1 : ranks_;
  for (rank_ = first; own.file.get() >= 0 && rank_ < end; ++rank_) {
    if (!lock(own.file.get(), rank_) || ::pwrite(own.file.get(), "1", 1, static_cast<off_t>(rank_)) != 1)
      continue;
    own.pid = ::getpid();
    own.rank = rank_;
    return true;
  }
  *why = named >= 0 ? "another process is rank " + std::to_string(named)
                    : std::to_string(ranks_) + " other processes take part already (--collective)";
  return false;
}

bool Collective::join(const Conf& conf, const std::string& launch, std::string* why) {
  ranks_ = *conf.collective;
  timeout_ns_ = conf.collective_timeout_ns();
  if (!take_rank(conf.folder, why)) return false;
  auto hash_of = [](const std::string& text) {
    return hash64(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(hash_of(launch)));
  nonce_ = hash_of(conf.token + hash);
  char id[17];
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(nonce_));
  id_ = id;
  OwnFd file(::open((conf.folder + "/collective-" + hash).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  void* got = MAP_FAILED;
  if (file.get() >= 0 && ::ftruncate(file.get(), sizeof(Page)) == 0)
    got = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (got == MAP_FAILED) {
    *why = "the ranks can't meet in " + conf.folder + ": " + io_error_text(errno);
    return false;
  }
  page_ = static_cast<Page*>(got);
  const uint64_t state = page_->state.load();
  if (cause_of(state) != 0) *why = reason(state);
  return cause_of(state) == 0;
}

bool Collective::has_ended(uint64_t rank) const noexcept {
  const int file = membership().file.get();
  char has_begun = 0;
  struct flock byte = byte_of(rank);
  return ::pread(file, &has_begun, 1, static_cast<off_t>(rank)) == 1 && has_begun == '1' &&
         ::fcntl(file, F_GETLK, &byte) == 0 && byte.l_type == F_UNLCK;
}

bool Collective::give_up(uint64_t seen, Cause cause, uint64_t whose) noexcept {
  return page_->state.compare_exchange_strong(
      seen, seen | static_cast<uint64_t>(cause) << cause_shift | whose << rank_shift);
}

std::string Collective::reason(uint64_t state) const {
  const uint64_t whose = state >> rank_shift;
  const std::string rank = "rank " + std::to_string(whose);
  static const char* const missing[] = {"come to this launch",
                                        "finish what it had queued before",
                                        "mark the memory that it gave to others",
                                        "look for others' memory",
                                        "take its marks back",
                                        "save its memory",
                                        "finish the launch",
                                        "save what the launch changed"};
  switch (static_cast<Cause>(cause_of(state))) {
    case Cause::ended:
      return rank + " ended before the collective launch did";
    case Cause::late:
      return rank + " did not " + missing[step_of(state)] + " in time (--collective-timeout)";
    default:
      return rank + " could not capture its part of the collective launch";
  }
}

bool Collective::pass(Step step, std::string* why) {
  const auto number = static_cast<uint64_t>(step);
  const uint64_t mine = 1ULL << rank_, all = (1ULL << ranks_) - 1;
  const uint64_t deadline = now_ns() + timeout_ns_;
  for (Backoff backoff;; backoff.pause()) {
    uint64_t state = page_->state.load();
    if (cause_of(state) != 0) {
      *why = reason(state);
      return false;
    }
    if (step_of(state) > number) return true;
    if ((state & mine) == 0) {
      uint64_t next = state | mine;
      if ((next & arrived_mask) == all) next = (number + 1) << step_shift;
      page_->state.compare_exchange_strong(state, next);
      continue;
    }
    const bool is_late = now_ns() >= deadline;
    for (uint64_t rank = 0; rank < ranks_; ++rank) {
      if ((state >> rank & 1) != 0) continue;
      const bool ended = has_ended(rank);
      if ((ended || is_late) && give_up(state, ended ? Cause::ended : Cause::late, rank)) break;
    }
  }
}

bool Collective::mark(Device& device, std::vector<Allocation>& allocations, std::vector<Mark>* marks,
                      std::string* why) {
  marks->reserve(allocations.size());
  for (Allocation& allocation : allocations) {
    if (allocation.shared != Shared::exported || allocation.size < mark_bytes ||
        !device.is_readable(allocation))
      continue;
    Mark mark{&allocation, page_->marks.fetch_add(1), {}};
    if (mark.number >= most_marks) {
      *why = "the ranks share more than " + std::to_string(most_marks) + " allocations";
      return false;
    }
    Page::Exported& entry = page_->exported[mark.number];
    entry.base = allocation.base;
    entry.rank = rank_;
    const uint64_t words[2] = {nonce_, mark.number};
    if (read_bytes(device, allocation.device, allocation.base, mark.before)) {
      marks->push_back(mark);
      if (device.write(allocation.device, allocation.base, reinterpret_cast<const uint8_t*>(words),
                       mark_bytes))
        continue;
    }
    *why = "memory at " + address_text(allocation.base) +
           " that other ranks may have can't be marked: " + device.error_text(device.status());
    return false;
  }
  return true;
}

bool Collective::look(Device& device, std::vector<Allocation>& allocations, std::string* why) {
  for (Allocation& allocation : allocations) {
    if (allocation.shared != Shared::imported || allocation.kind != RegionKind::device ||
        allocation.size < mark_bytes || !device.is_readable(allocation))
      continue;
    uint64_t words[2] = {};
    if (!read_bytes(device, allocation.device, allocation.base, reinterpret_cast<uint8_t*>(words))) {
      *why = "memory at " + address_text(allocation.base) +
             " of another rank can't be read: " + device.error_text(device.status());
      return false;
    }
    if (words[0] != nonce_ || words[1] >= most_marks || words[1] >= page_->marks.load()) continue;
    Page::Exported& entry = page_->exported[words[1]];
    allocation.peer = static_cast<int64_t>(entry.rank);
    allocation.peer_base = entry.base;
    entry.is_imported.store(1);
  }
  return true;
}

bool Collective::find_owners(Device& device, std::vector<Allocation>* allocations, std::string* why) {
  std::vector<Mark> marks;
  bool good = pass(Step::idle, why) && mark(device, *allocations, &marks, why) && pass(Step::marked, why) &&
              look(device, *allocations, why) && pass(Step::found, why);
  bool restored = true;
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {  // some may be the same memory
    restored =
        device.write(mark->allocation->device, mark->allocation->base, mark->before, mark_bytes) && restored;
    if (page_->exported[mark->number].is_imported.load() == 0) mark->allocation->shared = Shared::no;
  }
  if (good && !restored)
    *why = "memory that other ranks may have can't be written: " + device.error_text(device.status());
  return good && restored && pass(Step::restored, why);
}

}  // namespace kerncap
