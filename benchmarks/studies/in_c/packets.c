/* packets N < packets > figures: route packets on a cube of 2^N nodes, bit by bit from the lowest, first in, first out.
   In: pairs of int64, from and to. Out: steps, the sum of all arrival times, the longest queue, and seconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int n, *end, *after, *first, *last, *length, longest;

static void put(int packet, int node)
{
    int link = node * n + __builtin_ctz(node ^ end[packet]);
    if (length[link]++)
        after[last[link]] = packet;
    else
        first[link] = packet;
    last[link] = packet;
    if (length[link] > longest)
        longest = length[link];
}

int main(int argc, char **argv)
{
    n = argc > 1 ? atoi(argv[1]) : 10;
    size_t links = (size_t)n << n, room = 1 << 20, count = 0;
    int64_t(*pairs)[2] = malloc(room * sizeof *pairs);
    while (fread(pairs + count, sizeof *pairs, 1, stdin) == 1)
        if (++count == room)
            pairs = realloc(pairs, (room *= 2) * sizeof *pairs);
    struct timespec begin, stop;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    end = malloc(count * sizeof(int));
    after = malloc(count * sizeof(int));
    first = malloc(links * sizeof(int));
    last = malloc(links * sizeof(int));
    length = calloc(links, sizeof(int));
    int *moving = malloc(links * sizeof(int)), *over = malloc(links * sizeof(int));
    int64_t left = 0, steps = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        end[i] = (int)pairs[i][1];
        if (pairs[i][0] != pairs[i][1]) {
            put((int)i, (int)pairs[i][0]);
            left++;
        }
    }
    for (; left; ) {
        size_t moved = 0;
        steps++;
        for (size_t link = 0; link < links; link++) {
            if (!length[link])
                continue;
            int packet = first[link], node = (int)(link / n) ^ 1 << link % n;
            first[link] = after[packet];
            length[link]--;
            if (node == end[packet]) {
                sum += steps;
                left--;
            } else {
                moving[moved] = packet;
                over[moved++] = node;
            }
        }
        for (size_t k = 0; k < moved; k++)
            put(moving[k], over[k]);
    }
    clock_gettime(CLOCK_MONOTONIC, &stop);
    double seconds = stop.tv_sec - begin.tv_sec + 1e-9 * (stop.tv_nsec - begin.tv_nsec);
    printf("%lld %lld %d %.6f\n", (long long)steps, (long long)sum, longest, seconds);
    return 0;
}
