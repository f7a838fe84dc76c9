struct Pair { float *p; int n; };
