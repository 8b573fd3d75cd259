/* The row loops of OASIS for float and for double, on the best instructions that the machine has. */

#ifndef OASIS_BENCH_ROWS_H
#define OASIS_BENCH_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "_multiversioned.h"

#define REAL float
#define NAME(f) f##_float
#include "_rows.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(f) f##_double
#include "_rows.h"
#undef REAL
#undef NAME

#endif
