/* Includes the header LOOPS for float, then for double: there REAL is the type of the numbers, and
   NAME(f) is f_float or f_double. */

#define REAL float
#define NAME(f) f##_float
#include LOOPS
#undef REAL
#undef NAME

#define REAL double
#define NAME(f) f##_double
#include LOOPS
#undef REAL
#undef NAME
