/* The row loops of OASIS for float and for double, on the best instructions that the machine has. */

#ifndef OASIS_BENCH_ROWS_H
#define OASIS_BENCH_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* GCC on x86-64 Linux compiles each function for AVX-512, for AVX2 and for any processor; the
   loader chooses.  Elsewhere there is one version.  Only the order of sums differs. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 12
#define MULTIVERSIONED \
    __attribute__((unused, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__GNUC__)
#define MULTIVERSIONED __attribute__((unused))
#else
#define MULTIVERSIONED
#define restrict __restrict
#endif

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
