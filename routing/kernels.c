/* The inner loops of the packet simulator and of `decompose`, compiled. Everything here has a twin in numpy, which gives
   the same numbers and runs where this was not built: networks/simulator.py, decomposition.py.

   All arrays come as contiguous buffers of int64 or int32, made by the callers (networks/simulator.py, decomposition.py),
   which see to it that numbers in them are within range. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* Memory, in large pages where the system has them: much of it is read here and there. */
static void *take(size_t bytes)
{
    char *memory = PyMem_RawMalloc(bytes);
#ifdef MADV_HUGEPAGE
    if (memory && bytes >= (size_t)1 << 22) {
        size_t ahead = -(uintptr_t)memory & 4095; /* to the next page */
        madvise(memory + ahead, bytes - ahead, MADV_HUGEPAGE); /* where it fails, pages are small */
    }
#endif
    return memory;
}

/* -- packets: first in, first out, a node using all its links ----------------------------------------------------- */

typedef struct {
    int32_t first, last, length, longest; /* of a queue; first and last only where it is not empty */
} Queue;

typedef struct {
    int32_t end, after;
} Packet;

typedef struct {
    int32_t packet, link;
} Move;

typedef struct {
    Queue *queues;
    Packet *packets;
    uint64_t *bits; /* of each queue, whether it is not empty */
    const int64_t *heads;
    int64_t *load;
    Py_ssize_t links;
} Run;

/* What a packet's next link follows from. */
typedef struct {
    int kind, d, wrap;
    const int64_t *sides, *coordinates, *links;
} Rule;

enum { CUBE, GRID };

static inline int64_t next_link(const Rule *rule, int64_t at, int64_t to)
{
    if (rule->kind == CUBE)
        return at * rule->d + __builtin_ctzll((unsigned long long)(at ^ to));
    const int64_t *here = rule->coordinates + at * rule->d, *there = rule->coordinates + to * rule->d;
    int axis = 0;
    while (here[axis] == there[axis])
        axis++;
    int64_t up = there[axis] > here[axis];
    if (rule->wrap) {
        int64_t side = rule->sides[axis], way = there[axis] - here[axis];
        way += way < 0 ? side : 0;
        up = 2 * way < side || (2 * way == side && here[axis] % 2 == 0) || side == 2;
    }
    return rule->links[at * 2 * rule->d + 2 * axis + up];
}

static inline void put(Run *run, int32_t packet, int64_t link)
{
    Queue *queue = run->queues + link;
    if (queue->length)
        run->packets[queue->last].after = packet;
    else {
        queue->first = packet;
        run->bits[link >> 6] |= 1ull << (link & 63);
    }
    queue->last = packet;
    if (++queue->length > queue->longest)
        queue->longest = queue->length;
}

enum { AHEAD = 8 }; /* so many packets ahead memory is asked for what they need */

/* Route all packets; the number of steps, or -1 - waiting where `limit` is passed. Of a packet that is there, `after`
   says when it came. */
static int64_t route(Run *run, const Rule *rule, const int64_t *begin, Py_ssize_t count, int64_t limit, Move *going)
{
    int64_t waiting = 0, t = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t end = run->packets[i].end;
        if (begin[i] != end) {
            put(run, (int32_t)i, next_link(rule, begin[i], end));
            waiting++;
        }
    }
    Py_ssize_t words = (run->links + 63) / 64;
    while (waiting) {
        if (t == limit)
            return -1 - waiting;
        t++;
        Py_ssize_t moving = 0;
        for (Py_ssize_t word = 0; word < words; word++) {
            for (uint64_t left = word + 1 < words ? run->bits[word + 1] : 0; left; left &= left - 1)
                __builtin_prefetch(run->packets + run->queues[(word + 1) * 64 + __builtin_ctzll(left)].first, 1);
            for (uint64_t left = run->bits[word]; left; left &= left - 1) {
                int64_t link = word * 64 + __builtin_ctzll(left), node = run->heads[link];
                Queue *queue = run->queues + link;
                Packet *packet = run->packets + queue->first;
                if (packet->end == node)
                    waiting--;
                else
                    going[moving++] = (Move){queue->first, (int32_t)next_link(rule, node, packet->end)};
                queue->first = packet->after;
                if (packet->end == node)
                    packet->after = (int32_t)t;
                if (!--queue->length)
                    run->bits[word] &= ~(1ull << (link & 63));
                run->load[link]++;
            }
        }
        for (Py_ssize_t k = 0; k < moving; k++) {
            if (k + AHEAD < moving)
                __builtin_prefetch(run->packets + run->queues[going[k + AHEAD].link].last, 1);
            put(run, going[k].packet, going[k].link);
        }
    }
    return t;
}

static PyObject *packets_route(PyObject *module, PyObject *args)
{
    Py_buffer begin, end, heads, load, longest, delivered, sides, coordinates, links;
    int kind, d, wrap;
    long long limit;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*w*w*w*iiiy*y*y*L", &begin, &end, &heads, &load, &longest, &delivered, &kind, &d,
                          &wrap, &sides, &coordinates, &links, &limit))
        return NULL;
    Py_ssize_t count = begin.len / 8, size = heads.len / 8, room = size < count ? size : count;
    Run run = {.heads = heads.buf, .load = load.buf, .links = size};
    run.queues = PyMem_RawCalloc(size + 1, sizeof(Queue));
    run.packets = take((count + 1) * sizeof(Packet));
    run.bits = PyMem_RawCalloc(size / 64 + 1, 8);
    Move *going = take((room + 1) * sizeof(Move));
    int64_t steps = 0;
    PyObject *result = NULL;
    if (run.queues && run.packets && run.bits && going) {
        Rule rule = {kind, d, wrap, sides.buf, coordinates.buf, links.buf};
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t i = 0; i < count; i++)
            run.packets[i] = (Packet){(int32_t)((int64_t *)end.buf)[i], 0};
        steps = route(&run, &rule, begin.buf, count, limit, going);
        for (Py_ssize_t i = 0; i < count; i++)
            ((int64_t *)delivered.buf)[i] = run.packets[i].after;
        for (Py_ssize_t k = 0; k < size; k++)
            ((int64_t *)longest.buf)[k] = run.queues[k].longest;
        Py_END_ALLOW_THREADS;
        result = PyLong_FromLongLong(steps);
    }
    else
        PyErr_NoMemory();
    PyMem_RawFree(run.queues);
    PyMem_RawFree(run.packets);
    PyMem_RawFree(run.bits);
    PyMem_RawFree(going);
    Py_buffer *all[] = {&begin, &end, &heads, &load, &longest, &delivered, &sides, &coordinates, &links};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        PyBuffer_Release(all[k]);
    return result;
}

/* -- decompose -------------------------------------------------------------------------------------------------------- */

enum { CHOSEN = -2, OTHER = -1, FAR = 1 << 16 /* edges: beyond a cache */ };

/* Walks that are parts of tours, in trees: 2 * another + whether it chose the other edges. */
static int32_t root_of(int32_t *up, int32_t walk)
{
    int32_t differ = 0;
    for (; up[walk] >> 1 != walk; walk = up[walk] >> 1) {
        up[walk] = up[up[walk] >> 1] ^ (up[walk] & 1);
        differ ^= up[walk] & 1;
    }
    return 2 * walk + differ;
}

/* What a walk chose is what, as visited, the other one chose of its edges, or left. */
static void join(int32_t *up, int32_t walk, int32_t visited, int alike)
{
    int32_t one = root_of(up, walk), other = root_of(up, ~visited >> 1);
    if (one >> 1 != other >> 1)
        up[one >> 1] = other ^ (one & 1) ^ ((~visited & 1) != alike);
}

enum { WALKS = 12 };

/* What `alternate` does, where tours are larger than a cache: several walks at a time wait for memory together. Each ends
   where one has been; when all have, the least edge of a tour says which of its edges are chosen. Edges that were
   visited: ~(2 * walk + whether it chose them). */
static void walk_tours(int32_t *mate, Py_ssize_t size, int32_t *up, int32_t *behind, int8_t *turned)
{
    int32_t at[WALKS], number[WALKS], walks = 0;
    int active = 0;
    for (Py_ssize_t fresh = 0; active || fresh < size;) {
        if (active < WALKS && fresh < size) { /* one more begins */
            if (mate[fresh] >= 0) {
                up[walks] = 2 * walks;
                behind[walks] = mate[fresh];
                turned[walks] = -1;
                at[active] = (int32_t)fresh;
                number[active++] = walks++;
            }
            fresh += 2;
            continue;
        }
        for (int w = 0; w < active; w++) {
            int32_t edge = at[w];
            if (mate[edge] >= 0) {
                at[w] = mate[edge ^ 1];
                mate[edge] = ~(2 * number[w] + 1);
                mate[edge ^ 1] = ~(2 * number[w]);
                __builtin_prefetch(mate + at[w], 1);
                continue;
            }
            join(up, number[w], mate[edge], 1);
            active--;
            at[w] = at[active];
            number[w--] = number[active];
        }
    }
    for (int32_t walk = 0; walk < walks; walk++) /* two may have begun back to back */
        join(up, walk, mate[behind[walk]], 0);
    for (Py_ssize_t i = 0; i < size; i++) {
        int32_t walk = ~mate[i], root = root_of(up, walk >> 1), chosen = (walk ^ root) & 1;
        if (turned[root >> 1] < 0)
            turned[root >> 1] = !chosen;
        mate[i] = chosen != turned[root >> 1] ? CHOSEN : OTHER;
    }
}

/* Every other edge along closed tours, the least edge of each tour being chosen: mate[edge] == CHOSEN. Edges 2i and
   2i + 1 share a row, by_column[2i] and by_column[2i + 1] a column. */
static void alternate(const int32_t *by_column, int32_t *mate, Py_ssize_t size)
{
    for (Py_ssize_t k = 0; k < size; k += 2) {
        mate[by_column[k]] = by_column[k + 1];
        mate[by_column[k + 1]] = by_column[k];
    }
    if (size > FAR) {
        int32_t *up = PyMem_RawMalloc(size * sizeof(int32_t));
        int8_t *turned = PyMem_RawMalloc(size / 2);
        int walked = up && turned;
        if (walked)
            walk_tours(mate, size, up, up + size / 2, turned);
        PyMem_RawFree(up);
        PyMem_RawFree(turned);
        if (walked)
            return;
    }
    for (Py_ssize_t i = 0; i < size; i++)
        for (int32_t edge = (int32_t)i, next; mate[edge] >= 0; edge = next) {
            next = mate[edge ^ 1];
            mate[edge] = CHOSEN;
            mate[edge ^ 1] = OTHER;
        }
}

/* Edges of multigraphs: of which edge each is a part, how many equal ones it is, and the order that sorts those of each
   graph by column. */
typedef struct {
    Py_ssize_t size;
    int32_t *origin, *copies, *order;
} Edges;

static void drop(Edges *edges)
{
    PyMem_RawFree(edges->origin);
    PyMem_RawFree(edges->copies);
    PyMem_RawFree(edges->order);
}

static int room(Edges *edges, Py_ssize_t size)
{
    Py_ssize_t bytes = (size + 1) * sizeof(int32_t);
    *edges = (Edges){size, take(bytes), take(bytes), take(bytes)};
    return edges->origin && edges->copies && edges->order;
}

/* Two halves, one after the other; how many edges the first has, -1 where there is no memory. */
static Py_ssize_t halve(const Edges *all, Edges *into)
{
    Py_ssize_t size = all->size, odd = 0, ends = 0, first = 0, second = 0, bytes = (size + 1) * sizeof(int32_t);
    const int32_t *copies = all->copies, *order = all->order;
    int32_t *single = take(bytes), *number = take(2 * bytes);
    int32_t *by_column = number, *mate = number ? number + size : NULL; /* used up when numbers are written */
    if (!single || !number)
        goto end;
    /* Of c equal edges each half gets c / 2; what remains is simple, and all degrees are even. */
    for (Py_ssize_t k = 0; k < size; k++)
        single[k] = copies[k] & 1 ? (int32_t)odd++ : -1;
    for (Py_ssize_t k = 0; k < size; k++)
        if (single[order[k]] >= 0)
            by_column[ends++] = single[order[k]];
    alternate(by_column, mate, odd);
    for (Py_ssize_t k = 0; k < size; k++) {
        single[k] = copies[k] / 2 + (single[k] >= 0 && mate[single[k]] == CHOSEN);
        first += single[k] > 0;
        second += copies[k] > single[k];
    }
    if (!room(into, first + second)) {
        first = -1;
        goto end;
    }
    int32_t at[2] = {0, (int32_t)first};
    for (Py_ssize_t k = 0; k < size; k++) {
        int32_t share[2] = {single[k], copies[k] - single[k]};
        for (int half = 0; half < 2; half++) {
            number[2 * k + half] = share[half] ? at[half] : -1;
            if (share[half]) {
                into->origin[at[half]] = all->origin[k];
                into->copies[at[half]++] = share[half];
            }
        }
    }
    Py_ssize_t one = 0, other = first;
    for (Py_ssize_t k = 0; k < size; k++) {
        const int32_t *of = number + 2 * (Py_ssize_t)order[k];
        if (of[0] >= 0)
            into->order[one++] = of[0];
        if (of[1] >= 0)
            into->order[other++] = of[1];
    }
end:
    if (!single || !number)
        first = -1;
    PyMem_RawFree(single);
    PyMem_RawFree(number);
    return first;
}

/* Edges from arrays of int64. */
static int taken(Edges *edges, const int64_t *copies, const int64_t *order, Py_ssize_t size)
{
    if (!room(edges, size))
        return 0;
    for (Py_ssize_t k = 0; k < size; k++) {
        edges->origin[k] = (int32_t)k;
        edges->copies[k] = (int32_t)copies[k];
        edges->order[k] = (int32_t)order[k];
    }
    return 1;
}

/* halves(copies, order, origins, counts, orders): two halves of edges, into arrays of twice the size; how many edges the
   first has, and both. */
static PyObject *decompose_halves(PyObject *module, PyObject *args)
{
    Py_buffer copies, order, into[3];
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*w*w*w*", &copies, &order, into, into + 1, into + 2))
        return NULL;
    Edges all = {0}, both = {0};
    Py_ssize_t first = -1;
    Py_BEGIN_ALLOW_THREADS;
    if (taken(&all, copies.buf, order.buf, copies.len / 8))
        first = halve(&all, &both);
    const int32_t *from[] = {both.origin, both.copies, both.order};
    for (int array = 0; first >= 0 && array < 3; array++)
        for (Py_ssize_t k = 0; k < both.size; k++)
            ((int64_t *)into[array].buf)[k] = from[array][k];
    drop(&all);
    drop(&both);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&copies);
    PyBuffer_Release(&order);
    for (int array = 0; array < 3; array++)
        PyBuffer_Release(into + array);
    return first < 0 ? PyErr_NoMemory() : Py_BuildValue("nn", first, both.size);
}

typedef struct {
    int32_t *order, *found, *number, *spare, *mate;
    Py_ssize_t n, cached;
} Split;

/* The edges found[from:from + size], of graphs without equal edges, into matchings: the twin's steps, in its order. */
static void split(Split *all, Py_ssize_t from, Py_ssize_t size, Py_ssize_t degree)
{
    int32_t half = (int32_t)(size / 2), *order = all->order + from, *found = all->found + from;
    if (size > (all->cached > all->n * degree ? all->cached : all->n * degree)) {
        for (Py_ssize_t k = half; k < size; k++)
            order[k] -= half;
        split(all, from, half, degree);
        split(all, from + half, half, degree);
        return;
    }
    if (degree == 1)
        return;
    alternate(order, all->mate, size);
    int32_t at[2] = {half, 0};
    for (Py_ssize_t k = 0; k < size; k++) {
        all->number[k] = at[all->mate[k] == CHOSEN]++;
        all->spare[all->number[k]] = found[k];
    }
    memcpy(found, all->spare, size * sizeof(int32_t));
    at[0] = half, at[1] = 0;
    for (Py_ssize_t k = 0; k < size; k++) {
        int32_t number = all->number[order[k]];
        all->spare[at[number < half]++] = number;
    }
    memcpy(order, all->spare, size * sizeof(int32_t));
    split(all, from, size, degree / 2);
}

/* halve_all(copies, order, degree, cached, origins, colours): the colours of a regular multigraph whose degree is a power
   of two: of each single edge of which one it is a copy, and its colour. */
static PyObject *decompose_halve_all(PyObject *module, PyObject *args)
{
    Py_buffer copies, order, origins, colours;
    Py_ssize_t degree, cached;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*nnw*w*", &copies, &order, &degree, &cached, &origins, &colours))
        return NULL;
    Py_ssize_t size = colours.len / 8, n = size / degree, left = degree;
    Edges all = {0}, both;
    int32_t *scratch = NULL;
    int64_t *origin = origins.buf, *colour = colours.buf;
    Py_BEGIN_ALLOW_THREADS;
    int done = taken(&all, copies.buf, order.buf, copies.len / 8);
    while (done && all.size < size) {
        both = (Edges){0};
        done = halve(&all, &both) >= 0;
        drop(&all);
        all = both;
        left /= 2;
    }
    if (done && (scratch = take((4 * size + 1) * sizeof(int32_t)))) {
        int32_t *found = scratch;
        Split parts = {all.order, found, found + size, found + 2 * size, found + 3 * size, n, cached};
        for (Py_ssize_t k = 0; k < size; k++)
            found[k] = (int32_t)k;
        split(&parts, 0, size, left);
        for (Py_ssize_t at = 0, k = 0; at < degree; at++)
            for (Py_ssize_t row = 0; row < n; row++, k++)
                colour[found[k]] = at;
        for (Py_ssize_t k = 0; k < size; k++)
            origin[k] = all.origin[k];
    }
    drop(&all);
    Py_END_ALLOW_THREADS;
    int failed = !scratch;
    PyMem_RawFree(scratch);
    Py_buffer *views[] = {&copies, &order, &origins, &colours};
    for (int k = 0; k < 4; k++)
        PyBuffer_Release(views[k]);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

enum { DIGIT = 11 }; /* bits, at most */

/* stable_order(keys, order, sorted, bits, places): the stable order of keys of so many bits, and the keys in it; by
   counting digits, from the lowest. The place of each key, of so many bits, goes along in one number with it. */
static PyObject *decompose_stable_order(PyObject *module, PyObject *args)
{
    Py_buffer keys, order, sorted;
    int bits, places;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*w*w*ii", &keys, &order, &sorted, &bits, &places))
        return NULL;
    Py_ssize_t size = keys.len / 8;
    uint64_t *from = take((size + 1) * 8), *to = take((size + 1) * 8);
    int failed = !from || !to, passes = (bits + DIGIT - 1) / DIGIT, width = passes ? (bits + passes - 1) / passes : 0;
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t k = 0; k < size; k++)
            from[k] = (uint64_t)((int64_t *)keys.buf)[k] << places | (uint64_t)k;
        for (int pass = 0; pass < passes; pass++) {
            Py_ssize_t place[(1 << DIGIT) + 1] = {0};
            int shift = places + pass * width;
            uint64_t mask = ((uint64_t)1 << width) - 1;
            for (Py_ssize_t k = 0; k < size; k++)
                place[(from[k] >> shift & mask) + 1]++;
            for (uint64_t digit = 0; digit < mask; digit++)
                place[digit + 1] += place[digit];
            for (Py_ssize_t k = 0; k < size; k++)
                to[place[from[k] >> shift & mask]++] = from[k];
            uint64_t *swap = from;
            from = to, to = swap;
        }
        for (Py_ssize_t k = 0; k < size; k++) {
            ((int64_t *)order.buf)[k] = (int64_t)(from[k] & (((uint64_t)1 << places) - 1));
            ((int64_t *)sorted.buf)[k] = (int64_t)(from[k] >> places);
        }
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(from);
    PyMem_RawFree(to);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&order);
    PyBuffer_Release(&sorted);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"route", packets_route, METH_VARARGS, "The packet simulator; see networks/simulator.py."},
    {"halves", decompose_halves, METH_VARARGS, "See `_halves` in decomposition.py."},
    {"halve_all", decompose_halve_all, METH_VARARGS, "See `_halve_all` in decomposition.py."},
    {"stable_order", decompose_stable_order, METH_VARARGS, "See `_sorted` in decomposition.py."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_methods = methods};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModule_Create(&definition);
}
