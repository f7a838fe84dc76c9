#pragma once
#define INNER_KERNEL __global__
