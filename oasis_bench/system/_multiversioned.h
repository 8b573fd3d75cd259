/* Which instructions a function is compiled for, and what the processor at hand has.

   MULTIVERSIONED: GCC on x86-64 Linux compiles the function for AVX-512, for AVX2 and for any
   processor, and the loader takes the best that the machine has.  Elsewhere there is one version.
   Only rounding differs.

   AVX2, has_avx2(): for code that is written with the intrinsics of AVX2, where HAS_AVX2_CODE. */

#ifndef OASIS_BENCH_MULTIVERSIONED_H
#define OASIS_BENCH_MULTIVERSIONED_H

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \
    && __GNUC__ >= 12
#define MULTIVERSIONED \
    __attribute__((unused, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__GNUC__)
#define MULTIVERSIONED __attribute__((unused))
#else
#define MULTIVERSIONED
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_AVX2_CODE 1
#define AVX2 __attribute__((target("avx2,fma")))
#define has_avx2() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#endif

#ifdef __GNUC__
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#define restrict __restrict
#define __builtin_prefetch(address) ((void)0)
#endif

#endif
