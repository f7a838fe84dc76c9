#include "gain.h"
__constant__ float coef[4];
namespace ns {
template <class T> __global__ void scale(T *x, const T *y, int n, double f, Pair p) {}
}
