// Included before all else in a HIP program: HIP 6's headers are written for a clang that has this builtin,
// and the clang-15 of Debian 12's hipcc knows the same instruction by another name (33 is "not equal").
#if defined(__clang__) && __clang_major__ < 17
#define __builtin_amdgcn_ballot_w64(predicate) \
  __builtin_amdgcn_uicmp(static_cast<unsigned>(predicate), 0U, 33)
#endif
