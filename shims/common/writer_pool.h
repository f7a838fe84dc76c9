// Moves memory to where it is wanted: pieces come through the pinned ring, threads of ours work on
// them while the next ones are on their way.
#ifndef KERNCAP_COMMON_WRITER_POOL_H
#define KERNCAP_COMMON_WRITER_POOL_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/device.h"

namespace kerncap {

// Threads that write: as many as the machine has to spare, at most a dozen.
size_t writer_count() noexcept;
// Makes them, once; the gate is open. Fewer or none than wanted is no error: the caller's thread works then.
void start_writers() noexcept;
void reset_writers_after_fork() noexcept;

// A part of a region, at most Device::buffer_bytes.
struct Piece {
  uint32_t region = 0;
  uint64_t offset = 0;    // in the region
  uint64_t address = 0;   // in the device's address space
  uint64_t position = 0;  // the source's business: where it goes
  uint32_t size = 0;
  int device = 0;
  bool direct = false;  // host memory: read where it lies
};

class Pieces {
 public:
  virtual ~Pieces() = default;
  virtual bool next(Piece* piece) = 0;  // on the calling thread; false at the end
  // On any thread, several at once; must not throw. False: stop.
  virtual bool work(const Piece& piece, const uint8_t* bytes) noexcept = 0;
};

struct Progress {
  virtual ~Progress() = default;
  virtual void done(uint64_t bytes) = 0;  // on the calling thread, every now and then
};

// Works through all pieces. False: `why`, or empty where `work` said stop.
bool pump(Device& device, Pieces& pieces, Progress* progress, std::string* why);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_WRITER_POOL_H
