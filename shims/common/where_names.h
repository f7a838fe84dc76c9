// Names that --where may use of a native launch.
#ifndef KERNCAP_COMMON_WHERE_NAMES_H
#define KERNCAP_COMMON_WHERE_NAMES_H

#include <map>
#include <string>

#include "common/launch.h"
#include "common/nvtx_ranges.h"
#include "common/where.h"

namespace kerncap {

std::map<std::string, Term> where_names(const Launch& launch, ranges::Path range);

}  // namespace kerncap

#endif  // KERNCAP_COMMON_WHERE_NAMES_H
