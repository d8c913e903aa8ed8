/* The clock of time.perf_counter. */

#pragma once

#include <stdint.h>
#include <time.h>

#ifdef __APPLE__
#define CLOCK CLOCK_UPTIME_RAW
#else
#define CLOCK CLOCK_MONOTONIC
#endif

static inline int64_t nanoseconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static inline double now(void) { return (double)nanoseconds() / 1e9; }
