/* decompose P H COLOURS < packets > seconds: 1-relations of a full H-relation of P processors, H a power of two, by Euler
   tours: of every other edge along closed tours half of all edges at each processor. In: pairs of int64, from and to.
   The numbers of the 1-relations go to the file COLOURS, as int32. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int p, *from, *to, *colour, *edges, *spare, *mate[2], *open;
static char *half;

/* Join the edges at each processor in pairs. */
static void pair(const int *at, int *with, int begin, int end)
{
    memset(open, -1, p * sizeof(int));
    for (int k = begin; k < end; k++) {
        int edge = edges[k], *other = open + at[edge];
        if (*other < 0)
            *other = edge;
        else {
            with[edge] = *other;
            with[*other] = edge;
            *other = -1;
        }
    }
}

static void split(int begin, int end, int h, int first)
{
    if (h == 1) {
        for (int k = begin; k < end; k++)
            colour[edges[k]] = first;
        return;
    }
    pair(from, mate[0], begin, end);
    pair(to, mate[1], begin, end);
    for (int k = begin; k < end; k++)
        half[edges[k]] = 2;
    for (int k = begin; k < end; k++)
        for (int edge = edges[k]; half[edge] == 2; edge = mate[1][mate[0][edge]]) {
            half[edge] = 0;
            half[mate[0][edge]] = 1;
        }
    int low = begin, high = begin + (end - begin) / 2;
    for (int k = begin; k < end; k++)
        spare[half[edges[k]] ? high++ : low++] = edges[k];
    memcpy(edges + begin, spare + begin, (end - begin) * sizeof(int));
    split(begin, begin + (end - begin) / 2, h / 2, first);
    split(begin + (end - begin) / 2, end, h / 2, first + h / 2);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    p = atoi(argv[1]);
    int h = atoi(argv[2]), m = p * h, **arrays[] = {&from, &to, &colour, &edges, &spare, mate, mate + 1};
    int64_t(*pairs)[2] = malloc(m * sizeof *pairs);
    if (fread(pairs, sizeof *pairs, m, stdin) != (size_t)m)
        return 1;
    struct timespec begin, stop;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int k = 0; k < 7; k++)
        *arrays[k] = malloc(m * sizeof(int));
    open = malloc(p * sizeof(int));
    half = malloc(m);
    for (int k = 0; k < m; k++)
        from[k] = (int)pairs[k][0], to[k] = (int)pairs[k][1], edges[k] = k;
    split(0, m, h, 0);
    clock_gettime(CLOCK_MONOTONIC, &stop);
    FILE *file = fopen(argv[3], "wb");
    fwrite(colour, sizeof(int), m, file);
    fclose(file);
    printf("%.6f\n", stop.tv_sec - begin.tv_sec + 1e-9 * (stop.tv_nsec - begin.tv_nsec));
    return 0;
}
