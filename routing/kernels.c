/* The inner loops of the packet simulator and of `decompose`, compiled. Everything here has a twin in numpy, which gives
   the same numbers and runs where this was not built: networks/simulator.py, decomposition.py.

   All arrays come as contiguous buffers of int64 or int32, made by the callers (networks/compiled.py, decomposition.py),
   which see to it that numbers in them are within range. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* -- packets: first in, first out, a node using all its links ----------------------------------------------------- */

typedef struct {
    int32_t first, last, length, longest; /* of a queue; first and last only where it is not empty */
} Queue;

typedef struct {
    int32_t end, after;
} Packet;

typedef struct {
    Queue *queues;
    Packet *packets;
    uint64_t *bits; /* of each queue, whether it is not empty */
    const int64_t *heads;
    int64_t *load, *delivered;
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

/* Route all packets; the number of steps, or -1 - waiting where `limit` is passed. */
static int64_t route(Run *run, const Rule *rule, const int64_t *begin, Py_ssize_t count, int64_t limit,
                     int32_t *going, int64_t *over)
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
            for (uint64_t left = run->bits[word]; left; left &= left - 1) {
                int64_t link = word * 64 + __builtin_ctzll(left);
                Queue *queue = run->queues + link;
                int32_t i = queue->first;
                queue->first = run->packets[i].after;
                if (!--queue->length)
                    run->bits[word] &= ~(1ull << (link & 63));
                run->load[link]++;
                if (run->packets[i].end == run->heads[link]) {
                    run->delivered[i] = t;
                    waiting--;
                }
                else {
                    going[moving] = i;
                    over[moving++] = run->heads[link];
                }
            }
        }
        for (Py_ssize_t k = 0; k < moving; k++)
            put(run, going[k], next_link(rule, over[k], run->packets[going[k]].end));
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
    Run run = {.heads = heads.buf, .load = load.buf, .delivered = delivered.buf, .links = size};
    run.queues = PyMem_RawCalloc(size + 1, sizeof(Queue));
    run.packets = PyMem_RawCalloc(count + 1, sizeof(Packet));
    run.bits = PyMem_RawCalloc(size / 64 + 1, 8);
    int32_t *going = PyMem_RawMalloc((room + 1) * sizeof(int32_t));
    int64_t *over = PyMem_RawMalloc((room + 1) * sizeof(int64_t)), steps = 0;
    PyObject *result = NULL;
    if (run.queues && run.packets && run.bits && going && over) {
        Rule rule = {kind, d, wrap, sides.buf, coordinates.buf, links.buf};
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t i = 0; i < count; i++)
            run.packets[i].end = (int32_t)((int64_t *)end.buf)[i];
        steps = route(&run, &rule, begin.buf, count, limit, going, over);
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
    PyMem_RawFree(over);
    Py_buffer *all[] = {&begin, &end, &heads, &load, &longest, &delivered, &sides, &coordinates, &links};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        PyBuffer_Release(all[k]);
    return result;
}

/* -- decompose -------------------------------------------------------------------------------------------------------- */

/* alternately(by_column, mask): every other edge along closed tours, the least edge of each tour being chosen. Edges 2i
   and 2i + 1 share a row, by_column[2i] and by_column[2i + 1] a column. */
static int alternate(const int64_t *by_column, uint8_t *mask, Py_ssize_t size)
{
    int32_t *mate = PyMem_RawMalloc((size + 1) * sizeof(int32_t));
    if (!mate)
        return -1;
    for (Py_ssize_t k = 0; k < size; k += 2) {
        mate[by_column[k]] = (int32_t)by_column[k + 1];
        mate[by_column[k + 1]] = (int32_t)by_column[k];
    }
    for (Py_ssize_t i = 0; i < size; i++)
        mask[i] = 2;
    for (Py_ssize_t i = 0; i < size; i++)
        for (Py_ssize_t edge = i; mask[edge] == 2; edge = mate[edge ^ 1]) {
            mask[edge] = 1;
            mask[edge ^ 1] = 0;
        }
    PyMem_RawFree(mate);
    return 0;
}

static PyObject *decompose_alternately(PyObject *module, PyObject *args)
{
    Py_buffer by_column, mask;
    int failed;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*w*", &by_column, &mask))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    failed = alternate(by_column.buf, mask.buf, mask.len);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&by_column);
    PyBuffer_Release(&mask);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

typedef struct {
    int64_t *order, *found, *number, *spare;
    uint8_t *mask;
    Py_ssize_t n, cached;
} Split;

/* The edges found[from:from + size] into matchings: the twin's steps, in its order. */
static int split(Split *all, Py_ssize_t from, Py_ssize_t size, Py_ssize_t degree)
{
    Py_ssize_t half = size / 2;
    int64_t *order = all->order + from, *found = all->found + from;
    if (size > (all->cached > all->n * degree ? all->cached : all->n * degree)) {
        for (Py_ssize_t k = half; k < size; k++)
            order[k] -= half;
        return split(all, from, half, degree) || split(all, from + half, half, degree);
    }
    if (degree == 1)
        return 0;
    if (alternate(order, all->mask, size))
        return 1;
    Py_ssize_t first = 0, second = half;
    for (Py_ssize_t k = 0; k < size; k++) {
        all->number[k] = all->mask[k] ? first++ : second++;
        all->spare[all->number[k]] = found[k];
    }
    memcpy(found, all->spare, size * 8);
    first = 0, second = half;
    for (Py_ssize_t k = 0; k < size; k++) {
        int64_t number = all->number[order[k]];
        all->spare[number < half ? first++ : second++] = number;
    }
    memcpy(order, all->spare, size * 8);
    return split(all, from, size, degree / 2);
}

/* matchings(order, n, degree, cached, found): graphs without equal edges as matchings, one after the other; `order` is
   used up. */
static PyObject *decompose_matchings(PyObject *module, PyObject *args)
{
    Py_buffer order, found;
    Py_ssize_t n, degree, cached;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*nnnw*", &order, &n, &degree, &cached, &found))
        return NULL;
    Py_ssize_t size = order.len / 8;
    int64_t *both = PyMem_RawMalloc((size + 1) * 16);
    uint8_t *mask = PyMem_RawMalloc(size + 1);
    int failed = !both || !mask;
    if (!failed) {
        Split all = {order.buf, found.buf, both, both + size, mask, n, cached};
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t k = 0; k < size; k++)
            all.found[k] = k;
        failed = split(&all, 0, size, degree);
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(both);
    PyMem_RawFree(mask);
    PyBuffer_Release(&order);
    PyBuffer_Release(&found);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* halves(row, column, copies, order, rows, columns, counts, orders): two halves of edges, into arrays of twice the size;
   how many edges the first has, and both. */
static PyObject *decompose_halves(PyObject *module, PyObject *args)
{
    Py_buffer views[8];
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*w*w*", &views[0], &views[1], &views[2], &views[3], &views[4], &views[5],
                          &views[6], &views[7]))
        return NULL;
    Py_ssize_t size = views[0].len / 8, odd = 0, to[2];
    int64_t *row = views[0].buf, *column = views[1].buf, *copies = views[2].buf, *order = views[3].buf;
    int64_t *rows = views[4].buf, *columns = views[5].buf, *counts = views[6].buf, *orders = views[7].buf;
    int32_t *single = PyMem_RawMalloc((size + 1) * sizeof(int32_t)), *number = PyMem_RawMalloc((size + 1) * 8);
    int64_t *by_column = PyMem_RawMalloc((size + 1) * 8);
    uint8_t *mask = PyMem_RawMalloc(size + 1);
    int failed = !single || !number || !by_column || !mask;
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS;
        /* Of c equal edges each half gets c / 2; what remains is simple, and all degrees are even. */
        for (Py_ssize_t k = 0; k < size; k++)
            single[k] = copies[k] & 1 ? (int32_t)odd++ : -1;
        Py_ssize_t ends = 0;
        for (Py_ssize_t k = 0; k < size; k++)
            if (single[order[k]] >= 0)
                by_column[ends++] = single[order[k]];
        failed = alternate(by_column, mask, odd);
        to[0] = 0;
        for (Py_ssize_t k = 0; k < size; k++)
            to[0] += copies[k] / 2 + (single[k] >= 0 && mask[single[k]]) > 0;
        Py_ssize_t at[2] = {0, to[0]};
        for (Py_ssize_t k = 0; k < size; k++) {
            int64_t first = copies[k] / 2 + (single[k] >= 0 && mask[single[k]]), share[2] = {first, copies[k] - first};
            for (int half = 0; half < 2; half++) {
                number[2 * k + half] = -1;
                if (share[half]) {
                    rows[at[half]] = row[k], columns[at[half]] = column[k], counts[at[half]] = share[half];
                    number[2 * k + half] = (int32_t)at[half]++;
                }
            }
        }
        Py_ssize_t one = 0, other = to[0];
        for (Py_ssize_t k = 0; k < size; k++) {
            int32_t *of = number + 2 * order[k];
            if (of[0] >= 0)
                orders[one++] = of[0];
            if (of[1] >= 0)
                orders[other++] = of[1];
        }
        to[1] = at[1];
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(single);
    PyMem_RawFree(number);
    PyMem_RawFree(by_column);
    PyMem_RawFree(mask);
    for (int k = 0; k < 8; k++)
        PyBuffer_Release(&views[k]);
    if (failed)
        return PyErr_NoMemory();
    return Py_BuildValue("nn", to[0], to[1]);
}

/* stable_order(keys, order, bound): the stable order of keys from 0 to bound - 1, by counting digits of 11 bits. */
static PyObject *decompose_stable_order(PyObject *module, PyObject *args)
{
    Py_buffer keys, into;
    long long bound;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*w*L", &keys, &into, &bound))
        return NULL;
    Py_ssize_t size = keys.len / 8;
    const int64_t *key = keys.buf;
    int64_t *result = into.buf, *other = PyMem_RawMalloc((size + 1) * 8);
    if (other) {
        Py_BEGIN_ALLOW_THREADS;
        int passes = 0;
        for (long long left = bound - 1; left > 0; left >>= 11)
            passes++;
        int64_t *from = passes % 2 ? other : result, *to = passes % 2 ? result : other;
        for (Py_ssize_t k = 0; k < size; k++)
            from[k] = k;
        for (int pass = 0; pass < passes; pass++) {
            Py_ssize_t place[2049] = {0};
            for (Py_ssize_t k = 0; k < size; k++)
                place[(key[k] >> (11 * pass) & 2047) + 1]++;
            for (int digit = 0; digit < 2048; digit++)
                place[digit + 1] += place[digit];
            for (Py_ssize_t k = 0; k < size; k++)
                to[place[key[from[k]] >> (11 * pass) & 2047]++] = from[k];
            int64_t *swap = from;
            from = to, to = swap;
        }
        Py_END_ALLOW_THREADS;
    }
    int failed = !other;
    PyMem_RawFree(other);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&into);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"route", packets_route, METH_VARARGS, "The packet simulator; see networks/simulator.py."},
    {"alternately", decompose_alternately, METH_VARARGS, "See `_alternately` in decomposition.py."},
    {"matchings", decompose_matchings, METH_VARARGS, "See `_matchings` in decomposition.py."},
    {"halves", decompose_halves, METH_VARARGS, "See `_halves` in decomposition.py."},
    {"stable_order", decompose_stable_order, METH_VARARGS, "numpy's stable argsort of numbers from 0 on."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_methods = methods};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModule_Create(&definition);
}
