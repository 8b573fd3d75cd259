/* The generator of every sampling kernel: xoshiro256++, and exact draws from it. */

#ifndef OASIS_BENCH_RANDOM_H
#define OASIS_BENCH_RANDOM_H

#include <stdint.h>

static inline uint64_t rotate_left(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

/* Blackman & Vigna 2021, xoshiro256++ */
static inline uint64_t next_word(uint64_t s[4]) {
    const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Lemire 2019: uniform below `bound` (< 2^32) without division in nearly every draw */
static inline uint64_t below(uint64_t s[4], uint64_t bound) {
    uint64_t product = (next_word(s) >> 32) * bound;
    if ((uint32_t)product < bound) {
        const uint64_t threshold = (((uint64_t)1 << 32) - bound) % bound;
        while ((uint32_t)product < threshold)
            product = (next_word(s) >> 32) * bound;
    }
    return product >> 32;
}

/* Uniform over the multiples of 2^-53 in [0, 1) */
static inline double unit(uint64_t s[4]) {
    return (double)(next_word(s) >> 11) / 9007199254740992.0;
}

#endif
