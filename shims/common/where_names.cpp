#include "common/where_names.h"

#include "common/rank.h"
#include "common/text.h"

namespace kerncap {
namespace {

Term triple(const Dim3& dim) {
  return Term::of(std::vector<Term>{Term::of(static_cast<int64_t>(dim.x)),
                                    Term::of(static_cast<int64_t>(dim.y)),
                                    Term::of(static_cast<int64_t>(dim.z))});
}

}  // namespace

std::map<std::string, Term> where_names(const Launch& launch, ranges::Path range) {
  std::map<std::string, Term> names;
  names["grid"] = triple(launch.grid);
  names["block"] = triple(launch.block);
  names["cluster"] = launch.cluster.x == 0 ? Term() : triple(launch.cluster);
  names["shared"] = Term::of(static_cast<int64_t>(launch.shared_bytes));
  names["device"] = Term::of(static_cast<int64_t>(launch.device));
  names["stream"] = Term::of(static_cast<int64_t>(reinterpret_cast<intptr_t>(launch.stream)));
  names["parameter_bytes"] = Term::of(static_cast<int64_t>(launch.parameters.size()));
  names["name"] = Term::of(without_parameters(launch.kernel->demangled));
  names["range"] = Term::of(ranges::text_of(range));
  int64_t rank = rank_here().global;
  names["rank"] = rank < 0 ? Term() : Term::of(rank);
  return names;
}

}  // namespace kerncap
