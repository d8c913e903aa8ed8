/* decompose P H COLOURS < packets > seconds: 1-relations of a full H-relation of P processors, H a power of two, by Euler
   tours: of every other edge along closed tours half of all edges at each processor. In: pairs of int64, from and to.
   The numbers of the 1-relations go to the file COLOURS, as int32. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int end[2], packet;
} Edge;

static int p, *colour, *mate[2], *waiting;
static char *half;

static void split(Edge *edges, Edge *spare, int size, int h, int first)
{
    if (h == 1) {
        for (int k = 0; k < size; k++)
            colour[edges[k].packet] = first;
        return;
    }
    for (int side = 0; side < 2; side++) { /* the edges at each processor in pairs */
        memset(waiting, -1, p * sizeof(int));
        for (int k = 0; k < size; k++) {
            int *other = waiting + edges[k].end[side];
            if (*other >= 0) {
                mate[side][k] = *other;
                mate[side][*other] = k;
            }
            *other = *other < 0 ? k : -1;
        }
    }
    memset(half, 2, size);
    for (int k = 0; k < size; k++)
        for (int edge = k; half[edge] == 2; edge = mate[1][mate[0][edge]]) {
            half[edge] = 0;
            half[mate[0][edge]] = 1;
        }
    int at[2] = {0, size / 2};
    for (int k = 0; k < size; k++)
        spare[at[(int)half[k]]++] = edges[k];
    memcpy(edges, spare, size * sizeof(Edge));
    split(edges, spare, size / 2, h / 2, first);
    split(edges + size / 2, spare, size / 2, h / 2, first + h / 2);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    p = atoi(argv[1]);
    int h = atoi(argv[2]), m = p * h;
    int64_t(*pairs)[2] = malloc(m * sizeof *pairs);
    if (fread(pairs, sizeof *pairs, m, stdin) != (size_t)m)
        return 1;
    struct timespec begin, stop;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    Edge *edges = malloc(2 * m * sizeof(Edge));
    colour = malloc(m * sizeof(int)), waiting = malloc(p * sizeof(int)), half = malloc(m);
    mate[0] = malloc(m * sizeof(int)), mate[1] = malloc(m * sizeof(int));
    for (int k = 0; k < m; k++)
        edges[k] = (Edge){{(int)pairs[k][0], (int)pairs[k][1]}, k};
    split(edges, edges + m, m, h, 0);
    clock_gettime(CLOCK_MONOTONIC, &stop);
    FILE *file = fopen(argv[3], "wb");
    fwrite(colour, sizeof(int), m, file);
    fclose(file);
    printf("%.6f\n", stop.tv_sec - begin.tv_sec + 1e-9 * (stop.tv_nsec - begin.tv_nsec));
    return 0;
}
