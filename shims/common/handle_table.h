// A map from handles to kernels that is read without a lock on every launch.
//
// Open addressing; a slot's key is written once and stays, its kernel may be taken out (the module was
// unloaded) and put in anew. A full table is replaced by a bigger one, and the old one is kept: a
// reader may still be in it. Writers hold the registry's lock.
#ifndef KERNCAP_COMMON_HANDLE_TABLE_H
#define KERNCAP_COMMON_HANDLE_TABLE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/launch.h"

namespace kerncap {

class HandleTable {
 public:
  Kernel* find(const void* handle) const noexcept {
    const Table* table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return nullptr;
    for (size_t at = spread(handle) & table->mask;; at = (at + 1) & table->mask) {
      const void* key = table->slots[at].key.load(std::memory_order_acquire);
      if (key == handle) return table->slots[at].kernel.load(std::memory_order_acquire);
      if (key == nullptr) return nullptr;
    }
  }

  // Writers only.
  void put(const void* handle, Kernel* kernel) {
    Table* table = table_.load(std::memory_order_relaxed);
    if (table == nullptr || (used_ + 1) * 2 > table->mask) table = grow(table);
    place(table, handle, kernel);
  }

  template <typename Gone>
  void remove_if(Gone&& gone) noexcept {
    Table* table = table_.load(std::memory_order_relaxed);
    for (size_t at = 0; table != nullptr && at <= table->mask; ++at) {
      const void* key = table->slots[at].key.load(std::memory_order_relaxed);
      Kernel* kernel = table->slots[at].kernel.load(std::memory_order_relaxed);
      if (kernel != nullptr && gone(key, *kernel))
        table->slots[at].kernel.store(nullptr, std::memory_order_release);
    }
  }

 private:
  struct Slot {
    std::atomic<const void*> key{nullptr};
    std::atomic<Kernel*> kernel{nullptr};
  };
  struct Table {
    size_t mask;
    Slot* slots;
  };

  static size_t spread(const void* handle) noexcept {
    return (reinterpret_cast<uintptr_t>(handle) * 0x9E3779B97F4A7C15ULL) >> 32;
  }

  void place(Table* table, const void* handle, Kernel* kernel) noexcept {
    size_t at = spread(handle) & table->mask;
    while (true) {
      const void* key = table->slots[at].key.load(std::memory_order_relaxed);
      if (key == handle || key == nullptr) break;
      at = (at + 1) & table->mask;
    }
    // The kernel first: a reader that sees the key must see it.
    if (table->slots[at].key.load(std::memory_order_relaxed) == nullptr) ++used_;
    table->slots[at].kernel.store(kernel, std::memory_order_release);
    table->slots[at].key.store(handle, std::memory_order_release);
  }

  Table* grow(Table* old) {
    size_t size = old == nullptr ? 1024 : (old->mask + 1) * 2;
    auto* fresh = new Table{size - 1, new Slot[size]};
    used_ = 0;
    for (size_t at = 0; old != nullptr && at <= old->mask; ++at) {
      Kernel* kernel = old->slots[at].kernel.load(std::memory_order_relaxed);
      if (kernel != nullptr) place(fresh, old->slots[at].key.load(std::memory_order_relaxed), kernel);
    }
    table_.store(fresh, std::memory_order_release);
    return fresh;
  }

  std::atomic<Table*> table_{nullptr};
  size_t used_ = 0;
};

}  // namespace kerncap

#endif  // KERNCAP_COMMON_HANDLE_TABLE_H
