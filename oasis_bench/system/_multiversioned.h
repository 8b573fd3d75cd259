/* MULTIVERSIONED: a function compiled for several instruction sets.

   GCC on x86-64 Linux compiles it for AVX-512, for AVX2 and for any processor; the loader takes
   the best that the machine has.  Elsewhere there is one version.  Only rounding differs. */

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
#define restrict __restrict
#endif

#endif
