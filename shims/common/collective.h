// A launch that all ranks of a job make together: each waits for the others before and after its own, so that
// a kernel that waits for a peer's has it, and no rank changes what another one is still copying.
//
// The ranks meet in files of the session. `ranks` has one byte for each rank, which its process holds locked
// (fcntl) as long as it lives: the lock is gone however the process ended. `collective-<hash>` belongs to one
// launch, by the kernel's name and number; all ranks map it.
#ifndef KERNCAP_COMMON_COLLECTIVE_H
#define KERNCAP_COMMON_COLLECTIVE_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/device.h"
#include "common/memory_map.h"

namespace kerncap {

struct Conf;

class Collective {
 public:
  static constexpr uint64_t most_ranks = 48;

  // What all ranks have done, in this order.
  enum class Step : uint8_t {
    met,       // each has come to the launch
    idle,      // what it queued before has ended
    marked,    // memory that it gave to others is marked (find_owners)
    found,     // it has looked for marks in memory that others gave it
    restored,  // the marks are gone
    saved,     // its pre-state is kept: it launches
    ended,     // its launch has ended
    kept,      // its post-state is kept
  };

  Collective() = default;
  ~Collective();  // what was begun and not kept is given up, and the others go on
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  // Takes part in the launch of this name, "kernel#7". False: this process is no rank, or a rank has given it
  // up already.
  bool join(const Conf& conf, const std::string& launch, std::string* why);
  bool is_joined() const noexcept { return page_ != nullptr; }

  // Waits for all ranks to come to this step. False, at once or within the session's collective_timeout_s:
  // one of them did not, and the launch is given up for all.
  bool pass(Step step, std::string* why);

  // The steps from `idle` to `restored`: whose memory is which. An imported allocation gets its rank and its
  // address there; an exported one that no rank has imported is no longer marked as exported. The device is
  // idle, and the gate closed.
  bool find_owners(Device& device, std::vector<Allocation>* allocations, std::string* why);

  const std::string& id() const noexcept { return id_; }
  uint64_t rank() const noexcept { return rank_; }
  uint64_t ranks() const noexcept { return ranks_; }

 private:
  struct Page;
  struct Mark;
  enum class Cause : uint8_t { none, gave_up, ended, late };

  bool take_rank(const std::string& folder, std::string* why);
  bool has_ended(uint64_t rank) const noexcept;
  bool give_up(uint64_t seen, Cause cause, uint64_t whose) noexcept;
  std::string reason(uint64_t state) const;
  bool mark(Device& device, std::vector<Allocation>& allocations, std::vector<Mark>* marks, std::string* why);
  bool look(Device& device, std::vector<Allocation>& allocations, std::string* why);

  Page* page_ = nullptr;
  std::string id_;
  uint64_t nonce_ = 0, rank_ = 0, ranks_ = 0, timeout_ns_ = 0;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_COLLECTIVE_H
