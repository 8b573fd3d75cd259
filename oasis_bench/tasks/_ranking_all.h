/* The loops of scoring and ranking for float and for double. */

#ifndef OASIS_BENCH_RANKING_H
#define OASIS_BENCH_RANKING_H

#include <stddef.h>
#include <stdint.h>

#include "_multiversioned.h"

/* A group of queries is scored at once: 32 of float, 16 of double.  For 10 000 features it is 1.3
   MB and fits a second-level cache; twice as many queries take twice the time a score. */
#define GROUP_BYTES 128
#define TILE_ROWS 16

/* AVX2 has registers of 32 bytes, and AVX-512 gains nothing from wider ones here.  A vector wider
   than the registers is slow. */
#ifdef __x86_64__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define REAL float
#define NAME(f) f##_float
#include "_ranking.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(f) f##_double
#include "_ranking.h"
#undef REAL
#undef NAME

#endif
