/* GOAL schedules, compiled: their text is read, what has no end is found, and the simulated machine does them. Everything
   here has a twin in Python, which gives the same and runs where this was not built: `_read` and `_circle` in goal.py,
   operations.py on engine.py. The twin also says what is wrong with a file: here it is only found that something is.

   Arrays come as contiguous buffers from columns.py, which see to it that numbers in them are within range. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { CALC, SEND, RECV };
enum { ANY = -1 }; /* source, or tag */

#define MOST_TIME (UINT64_C(1) << 62) /* nanoseconds that a rank computes, and steps, are fewer */

/* Memory, in large pages where the system has them: much of it is read here and there. */
static void *take(size_t bytes)
{
    char *memory = PyMem_RawMalloc(bytes + 1);
#ifdef MADV_HUGEPAGE
    if (memory && bytes >= (size_t)1 << 22) {
        size_t ahead = -(uintptr_t)memory & 4095; /* to the next page */
        madvise(memory + ahead, bytes - ahead, MADV_HUGEPAGE); /* where it fails, pages are small */
    }
#endif
    return memory;
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t head; /* its first 8 bytes */
    const char *at;
    int32_t length, operation, rank;
} Label;

typedef struct {
    Label *cells;
    size_t mask, used;
    const char *end; /* of the text */
} Labels; /* of the rank that is read; cells of others are free */

typedef struct {
    const char *at;
    int32_t length;
} Word;

typedef struct {
    Word word;
    int32_t *place; /* for the number of the operation that has this label */
} Unknown; /* a label that has not been seen yet */

typedef struct {
    int64_t first, end, first_wait, end_wait; /* as they are in the text; first is -1 where it has not been read */
} Rank;

typedef struct {
    uint8_t *kinds, *at_begin;
    int64_t *sizes, *tags;
    int32_t *peers, *waiters, *waited;
    int64_t operations, waits, p;
    Rank *ranks;
    Unknown *unknown; /* of the rank that is read */
    size_t unknown_end, unknown_room;
    Labels labels;
    uint64_t computed; /* by the rank that is read: nanoseconds */
} Reading;

enum { SPACE = 1, LETTER = 2, DIGIT = 4 };

static uint8_t classes[256]; /* of ASCII; what is not, the twin reads */

static void classify(void)
{
    for (int c = 0; c < 128; c++) {
        int digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        int space = c == ' ' || c == '\t' || c == '\v' || c == '\f' || (c >= 0x1c && c <= 0x1f);
        classes[c] = (uint8_t)(space * SPACE | (letter || digit) * LETTER | digit * DIGIT);
    }
}

#define IS(c, class) (classes[(unsigned char)(c)] & (class))

static uint64_t head_of(Word word, const char *end)
{
    uint64_t head = 0;
    if (end - word.at >= 8) {
        memcpy(&head, word.at, 8);
        if (word.length < 8) {
            static const unsigned char ones[16] = {255, 255, 255, 255, 255, 255, 255, 255};
            uint64_t mask;
            memcpy(&mask, ones + 8 - word.length, 8);
            head &= mask;
        }
    } else
        memcpy(&head, word.at, word.length < 8 ? (size_t)word.length : 8);
    return head;
}

/* The cell of a label of the rank, or the free one for it. */
static Label *cell_of(const Labels *labels, Word word, uint64_t head, int32_t rank)
{
    uint64_t hash = head ^ (uint64_t)word.length << 56;
    for (int32_t k = 8; k < word.length; k++)
        hash = (hash ^ (unsigned char)word.at[k]) * 0x100000001b3ull;
    hash *= 0x9e3779b97f4a7c15ull;
    for (size_t k = hash >> 32;; k++) {
        Label *cell = labels->cells + (k & labels->mask);
        if (cell->rank != rank || (cell->head == head && cell->length == word.length
                                   && (word.length <= 8 || !memcmp(cell->at, word.at, (size_t)word.length))))
            return cell;
    }
}

static int32_t operation_of(const Labels *labels, Word word, int32_t rank)
{
    const Label *cell = cell_of(labels, word, head_of(word, labels->end), rank);
    return cell->rank == rank ? cell->operation : -1;
}

/* Twice as many cells; 0 where there is no memory. */
static int grow(Labels *labels, int32_t rank)
{
    size_t old = labels->cells ? labels->mask + 1 : 0, size = old ? 2 * old : 1024;
    Labels larger = {take(size * sizeof(Label)), size - 1, labels->used, labels->end};
    if (!larger.cells)
        return 0;
    for (size_t k = 0; k < size; k++)
        larger.cells[k].rank = -1;
    for (size_t k = 0; k < old; k++) {
        Label *cell = labels->cells + k;
        if (cell->rank == rank)
            *cell_of(&larger, (Word){cell->at, cell->length}, cell->head, rank) = *cell;
    }
    PyMem_RawFree(labels->cells);
    *labels = larger;
    return 1;
}

static inline const char *spaces(const char *at)
{
    while (IS(*at, SPACE))
        at++;
    return at;
}

/* Behind this word and the spaces after it; NULL where it is another, or there are none. */
static inline const char *expect(const char *at, const char *word, size_t length)
{
    if (memcmp(at, word, length) || !IS(at[length], SPACE))
        return NULL;
    return spaces(at + length);
}

#define EXPECT(at, word) (end - (at) >= (Py_ssize_t)sizeof(word) ? expect(at, word, sizeof(word) - 1) : NULL)

/* Behind a number; NULL where there is none below 2^63. */
static inline const char *number(const char *at, int64_t *value)
{
    uint64_t found = 0;
    const char *begin = at;
    for (; IS(*at, DIGIT); at++) {
        if (found > (UINT64_C(1) << 63) / 10 - 1)
            return NULL;
        found = 10 * found + (uint64_t)(*at - '0');
    }
    *value = (int64_t)found;
    return at > begin ? at : NULL;
}

/* So, too, or -1 where any is one. */
static inline const char *number_or_any(const char *at, int64_t *value, int any)
{
    if (!any || at[0] != '-' || at[1] != '1')
        return number(at, value);
    *value = ANY;
    return at + 2;
}

static inline const char *word_at(const char *at, Word *word)
{
    const char *begin = at;
    while (IS(*at, LETTER))
        at++;
    *word = (Word){begin, (int32_t)(at - begin)};
    return at > begin && at - begin < INT32_MAX ? at : NULL;
}

static inline int ends_line(char c)
{
    return c == '\n' || c == '\r';
}

/* Behind the end of the line, where nothing but a comment is left of it; else NULL. */
static inline const char *line_end(const char *at, const char *end)
{
    at = spaces(at);
    if (*at == '#')
        while (at < end && !ends_line(*at))
            at++;
    if (*at == '\r')
        return at + (at[1] == '\n' ? 2 : 1);
    if (*at == '\n')
        return at + 1;
    return at == end ? at : NULL;
}

/* Behind ` name number`, where that is there; NULL where the number is wrong. */
static const char *option(const char *at, const char *end, const char *name, int64_t *value, int any)
{
    const char *after = spaces(at);
    if (after == at || end - after < 4 || memcmp(after, name, 3) || !IS(after[3], SPACE))
        return at;
    return number_or_any(spaces(after + 3), value, any);
}

/* 0 where another operation of the rank has the label, or there is no memory. */
static int label_operation(Reading *reading, Word label, const char *end, int32_t rank)
{
    Labels *labels = &reading->labels;
    if (2 * labels->used > labels->mask && !grow(labels, rank))
        return 0;
    uint64_t head = head_of(label, end);
    Label *cell = cell_of(labels, label, head, rank);
    if (cell->rank == rank)
        return 0;
    *cell = (Label){head, label.at, label.length, (int32_t)reading->operations, rank};
    labels->used++;
    return 1;
}

static const char *read_operation(Reading *reading, const char *at, const char *end, int32_t rank)
{
    int64_t k = reading->operations, peer = 0, tag = 0, unused;
    const char *next;
    int kind;
    if (k == INT32_MAX)
        return NULL;
    if ((next = EXPECT(at, "calc"))) {
        kind = CALC;
        if (!(at = number(next, reading->sizes + k)))
            return NULL;
        reading->computed += (uint64_t)reading->sizes[k];
        if (reading->computed >= MOST_TIME)
            return NULL;
    } else {
        kind = (next = EXPECT(at, "send")) ? SEND : RECV;
        if (!next && !(next = EXPECT(at, "recv")))
            return NULL;
        if (!(at = number(next, reading->sizes + k)) || *(at = spaces(at)) != 'b' || !IS(at[1], SPACE))
            return NULL;
        at = spaces(at + 1);
        next = kind == SEND ? EXPECT(at, "to") : EXPECT(at, "from");
        if (!next || !(at = number_or_any(next, &peer, kind == RECV)) || peer >= reading->p || peer == rank)
            return NULL;
        if (!(at = option(at, end, "tag", &tag, kind == RECV)))
            return NULL;
    }
    if (!(at = option(at, end, "cpu", &unused, 0)) || !(at = option(at, end, "nic", &unused, 0)))
        return NULL;
    reading->kinds[k] = (uint8_t)kind;
    reading->peers[k] = (int32_t)peer;
    reading->tags[k] = tag;
    reading->operations++;
    return at;
}

/* Keeps in mind that the number of an operation is missing; 0 where there is no memory. */
static int miss(Reading *reading, Word word, int32_t *place)
{
    if (reading->unknown_end == reading->unknown_room) {
        size_t room = 2 * reading->unknown_room + 64;
        Unknown *larger = PyMem_RawRealloc(reading->unknown, room * sizeof(Unknown));
        if (!larger)
            return 0;
        reading->unknown = larger, reading->unknown_room = room;
    }
    reading->unknown[reading->unknown_end++] = (Unknown){word, place};
    return 1;
}

static const char *read_wait(Reading *reading, const char *at, const char *end, Word waiter, int32_t rank)
{
    int64_t k = reading->waits;
    const char *begin = at;
    at = spaces(at);
    int early = *at == 'i';
    if (at == begin || k == INT32_MAX || !(at = EXPECT(at + early, "requires")))
        return NULL;
    Word waited;
    if (!(at = word_at(at, &waited)))
        return NULL;
    int32_t *places[] = {reading->waiters + k, reading->waited + k};
    Word words[] = {waiter, waited};
    for (int one = 0; one < 2; one++) {
        *places[one] = operation_of(&reading->labels, words[one], rank);
        if (*places[one] < 0 && !miss(reading, words[one], places[one]))
            return NULL;
    }
    reading->at_begin[k] = (uint8_t)early;
    reading->waits++;
    return at;
}

/* The block of a rank, behind its `{`. */
static const char *read_rank(Reading *reading, const char *at, const char *end, int32_t rank)
{
    Labels *labels = &reading->labels;
    reading->unknown_end = labels->used = 0; /* the cells are those of other ranks */
    reading->computed = 0;
    for (;;) {
        at = spaces(at);
        if (*at == '}') {
            at = line_end(at + 1, end);
            break;
        }
        Word label;
        const char *after = word_at(at, &label);
        if (after) {
            const char *next = spaces(after);
            if (*next == ':') {
                if (!label_operation(reading, label, end, rank))
                    return NULL;
                at = read_operation(reading, spaces(next + 1), end, rank);
            } else if (IS(*next, DIGIT))
                at = read_operation(reading, at, end, rank);
            else
                at = read_wait(reading, after, end, label, rank);
            if (!at)
                return NULL;
        }
        if (at == end || !(at = line_end(at, end)))
            return NULL;
    }
    for (size_t k = 0; k < reading->unknown_end; k++) {
        *reading->unknown[k].place = operation_of(labels, reading->unknown[k].word, rank);
        if (*reading->unknown[k].place < 0)
            return NULL;
    }
    return at;
}

/* Whether there is nothing wrong with the text. */
static int read_text(Reading *reading, const char *at, const char *end)
{
    const char *next;
    while (*(at = spaces(at)) != 'n')
        if (at == end || !(at = line_end(at, end)))
            return 0;
    if (!(at = EXPECT(at, "num_ranks")) || !(at = number(at, &reading->p)) || !(at = line_end(at, end)))
        return 0;
    if (!reading->p || reading->p > end - at || reading->p >= INT32_MAX) /* each has more text than a letter */
        return 0;
    if (!(reading->ranks = take((size_t)reading->p * sizeof(Rank))) || !grow(&reading->labels, -1))
        return 0;
    for (int64_t k = 0; k < reading->p; k++)
        reading->ranks[k].first = -1;
    while ((at = spaces(at)) < end) {
        if ((next = EXPECT(at, "rank"))) {
            int64_t pid;
            if (!(at = number(next, &pid)) || *(at = spaces(at)) != '{' || pid >= reading->p)
                return 0;
            Rank *rank = reading->ranks + pid;
            if (rank->first >= 0 || !(at = line_end(at + 1, end)))
                return 0;
            rank->first = reading->operations, rank->first_wait = reading->waits;
            if (!(at = read_rank(reading, at, end, (int32_t)pid)))
                return 0;
            rank->end = reading->operations, rank->end_wait = reading->waits;
        } else if (!(at = line_end(at, end)))
            return 0;
    }
    for (int64_t k = 0; k < reading->p; k++)
        if (reading->ranks[k].first < 0)
            return 0;
    return 1;
}

/* A copy of the text with blanks for its comments; NULL where one has no end, or there is no memory. */
static char *without_comments(const char *text, size_t length)
{
    char *copy = take(length + 1), *at = copy;
    if (!copy)
        return NULL;
    memcpy(copy, text, length + 1);
    for (char *end = copy + length, *stop; at < end; at = stop > at ? stop : at + 1) {
        stop = at;
        if (*at == '#' || (*at == '/' && at[1] == '/'))
            while (stop < end && !ends_line(*stop))
                stop++;
        else if (*at == '/' && at[1] == '*') {
            for (stop = at + 2; stop < end && (stop[0] != '*' || stop[1] != '/');)
                stop++;
            if (stop == end) {
                PyMem_RawFree(copy);
                return NULL;
            }
            stop += 2;
        }
        for (char *c = at; c < stop; c++)
            if (!ends_line(*c))
                *c = ' ';
    }
    return copy;
}

/* The columns, rank by rank, as bytes. */
static PyObject *columns_of(const Reading *reading)
{
    int64_t n = reading->operations, m = reading->waits;
    Py_ssize_t sizes[] = {8 * (reading->p + 1), n, 8 * n, 4 * n, 8 * n, 4 * m, 4 * m, m};
    char *to[8];
    PyObject *found = PyTuple_New(8);
    for (int k = 0; found && k < 8; k++) {
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, sizes[k]);
        if (!bytes) {
            Py_CLEAR(found);
            break;
        }
        to[k] = PyBytes_AS_STRING(bytes);
        PyTuple_SET_ITEM(found, k, bytes);
    }
    if (!found)
        return NULL;
    int64_t place = 0, waits = 0, *begins = (int64_t *)to[0];
    int32_t *waiters = (int32_t *)to[5], *waited = (int32_t *)to[6];
    for (int64_t pid = 0; pid < reading->p; pid++) {
        const Rank *rank = reading->ranks + pid;
        size_t count = (size_t)(rank->end - rank->first);
        begins[pid] = place;
        memcpy(to[1] + place, reading->kinds + rank->first, count);
        memcpy(to[2] + 8 * place, reading->sizes + rank->first, 8 * count);
        memcpy(to[3] + 4 * place, reading->peers + rank->first, 4 * count);
        memcpy(to[4] + 8 * place, reading->tags + rank->first, 8 * count);
        int32_t shift = (int32_t)(place - rank->first);
        for (int64_t k = rank->first_wait; k < rank->end_wait; k++, waits++) {
            waiters[waits] = reading->waiters[k] + shift;
            waited[waits] = reading->waited[k] + shift;
            to[7][waits] = (char)reading->at_begin[k];
        }
        place += (int64_t)count;
    }
    begins[reading->p] = place;
    return found;
}

/* read(text): begins, kinds, sizes, peers, tags, waiters, waited, at_begin; None where the twin has to read it. */
static PyObject *goal_read(PyObject *module, PyObject *text)
{
    (void)module;
    if (!PyBytes_Check(text))
        return PyErr_Format(PyExc_TypeError, "expected bytes");
    size_t length = (size_t)PyBytes_GET_SIZE(text), most = length / 7 + 1, waits = length / 12 + 1; /* `calc 1`, a line;
                                                                                                       `a requires a` */
    char *copy = NULL;
    if (memchr(PyBytes_AS_STRING(text), '/', length) && !(copy = without_comments(PyBytes_AS_STRING(text), length)))
        Py_RETURN_NONE;
    const char *at = copy ? copy : PyBytes_AS_STRING(text), *end = at + length;
    Reading reading = {.kinds = take(most), .sizes = take(8 * most), .tags = take(8 * most), .peers = take(4 * most),
                       .waiters = take(4 * waits), .waited = take(4 * waits), .at_begin = take(waits),
                       .labels = {.end = end}};
    PyObject *found = NULL;
    int right = 0;
    if (reading.kinds && reading.sizes && reading.tags && reading.peers && reading.waiters && reading.waited
        && reading.at_begin) {
        Py_BEGIN_ALLOW_THREADS;
        right = read_text(&reading, at, end);
        Py_END_ALLOW_THREADS;
    }
    if (right)
        found = columns_of(&reading);
    void *taken[] = {reading.kinds, reading.sizes, reading.tags, reading.peers, reading.waiters, reading.waited,
                     reading.at_begin, reading.unknown, reading.ranks, reading.labels.cells, copy};
    for (size_t k = 0; k < sizeof(taken) / sizeof(*taken); k++)
        PyMem_RawFree(taken[k]);
    if (right)
        return found;
    Py_RETURN_NONE;
}

/* -- channels ----------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t tag;
    int32_t source, channel; /* -1 where it is free */
} Channel;

typedef struct {
    Channel *cells;
    size_t mask, used;
} Channels; /* of one destination */

static Channel *channel_of(const Channels *channels, int32_t source, int64_t tag)
{
    uint64_t hash = ((uint64_t)source + (uint64_t)tag * 0xc2b2ae3d27d4eb4full) * 0x9e3779b97f4a7c15ull;
    for (size_t k = hash >> 32;; k++) {
        Channel *cell = channels->cells + (k & channels->mask);
        if (cell->channel < 0 || (cell->source == source && cell->tag == tag))
            return cell;
    }
}

static int more_channels(Channels *channels)
{
    size_t old = channels->cells ? channels->mask + 1 : 0, size = old ? 2 * old : 64;
    Channels larger = {take(size * sizeof(Channel)), size - 1, channels->used};
    if (!larger.cells)
        return 0;
    for (size_t k = 0; k < size; k++)
        larger.cells[k].channel = -1;
    for (size_t k = 0; k < old; k++)
        if (channels->cells[k].channel >= 0)
            *channel_of(&larger, channels->cells[k].source, channels->cells[k].tag) = channels->cells[k];
    PyMem_RawFree(channels->cells);
    *channels = larger;
    return 1;
}

/* channels(begins, kinds, peers, tags, channel): puts the number of each message's (source, dest, tag) into channel;
   how many there are. */
static PyObject *goal_channels(PyObject *module, PyObject *args)
{
    Py_buffer of_begins, of_kinds, of_peers, of_tags, of_channel;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*", &of_begins, &of_kinds, &of_peers, &of_tags, &of_channel))
        return NULL;
    const int64_t *begins = of_begins.buf, *tags = of_tags.buf;
    const uint8_t *kinds = of_kinds.buf;
    const int32_t *peers = of_peers.buf;
    int32_t *channel = of_channel.buf, count = 0;
    int64_t p = of_begins.len / 8 - 1, n = begins[p];
    struct {
        int32_t operation, source;
    } *sends = take((size_t)n * sizeof(*sends));
    int64_t *ends = take((size_t)(p + 1) * 8); /* of the sends to each */
    Channels channels = {NULL, 0, 0};
    int failed = !sends || !ends || !more_channels(&channels);
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS;
        memset(ends, 0, (size_t)(p + 1) * 8);
        for (int64_t k = 0; k < n; k++)
            ends[peers[k] + 1] += kinds[k] == SEND;
        for (int64_t pid = 0; pid < p; pid++)
            ends[pid + 1] += ends[pid];
        for (int64_t pid = 0; pid < p; pid++)
            for (int64_t k = begins[pid]; k < begins[pid + 1]; k++)
                if (kinds[k] == SEND) {
                    int64_t place = ends[peers[k]]++;
                    sends[place].operation = (int32_t)k, sends[place].source = (int32_t)pid;
                }
        int64_t next = 0;
        for (int64_t dest = 0; dest < p && !failed; dest++) {
            for (size_t k = 0; k <= channels.mask; k++)
                channels.cells[k].channel = -1;
            channels.used = 0;
            int64_t receives = begins[dest];
            for (;;) {
                int64_t k;
                int32_t source;
                if (next < ends[dest]) {
                    k = sends[next].operation, source = sends[next].source;
                    next++;
                } else {
                    while (receives < begins[dest + 1] && kinds[receives] != RECV)
                        receives++;
                    if (receives == begins[dest + 1])
                        break;
                    k = receives++, source = peers[k];
                }
                if (2 * channels.used > channels.mask && (failed = !more_channels(&channels)))
                    break;
                Channel *cell = channel_of(&channels, source, tags[k]);
                if (cell->channel < 0) {
                    *cell = (Channel){tags[k], source, count++};
                    channels.used++;
                }
                channel[k] = cell->channel;
            }
        }
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(sends);
    PyMem_RawFree(ends);
    PyMem_RawFree(channels.cells);
    Py_buffer *views[] = {&of_begins, &of_kinds, &of_peers, &of_tags, &of_channel};
    for (int k = 0; k < 5; k++)
        PyBuffer_Release(views[k]);
    return failed ? PyErr_NoMemory() : PyLong_FromLong(count);
}

/* -- what waits for what ------------------------------------------------------------------------------------------ */

typedef struct {
    int32_t waits;      /* for so many */
    int32_t when[2];    /* the first of the waits for its end, and for its begin; -1: none */
} Node;

typedef struct {
    int32_t waiter, after; /* the next of the same list */
} Wait;

typedef struct {
    int32_t first, last; /* of a list of receives; -1: empty */
} Posted;

typedef struct {
    Node *nodes;
    Wait *waits;
    Posted *posted; /* receives that have begun, of each channel */
    int32_t *after; /* of these */
    int32_t *there; /* messages of each channel that no receive has yet */
} Graph;

static int make_graph(Graph *graph, int64_t n, int64_t m, int64_t channels, const int32_t *waiters,
                      const int32_t *waited, const uint8_t *at_begin)
{
    *graph = (Graph){take((size_t)n * sizeof(Node)), take((size_t)m * sizeof(Wait)),
                     take((size_t)channels * sizeof(Posted)), take((size_t)n * 4), take((size_t)channels * 4)};
    if (!graph->nodes || !graph->waits || !graph->posted || !graph->after || !graph->there)
        return 0;
    for (int64_t k = 0; k < n; k++)
        graph->nodes[k] = (Node){0, {-1, -1}};
    for (int64_t k = m; k-- > 0;) { /* so lists are in order */
        int32_t *first = &graph->nodes[waited[k]].when[at_begin[k]];
        graph->nodes[waiters[k]].waits++;
        graph->waits[k] = (Wait){waiters[k], *first};
        *first = (int32_t)k;
    }
    for (int64_t k = 0; k < channels; k++)
        graph->posted[k] = (Posted){-1, -1};
    memset(graph->there, 0, (size_t)channels * 4);
    return 1;
}

static void drop_graph(Graph *graph)
{
    void *taken[] = {graph->nodes, graph->waits, graph->posted, graph->after, graph->there};
    for (size_t k = 0; k < sizeof(taken) / sizeof(*taken); k++)
        PyMem_RawFree(taken[k]);
}

static inline void post(Graph *graph, int32_t channel, int32_t receive)
{
    Posted *posted = graph->posted + channel;
    graph->after[receive] = -1;
    if (posted->first < 0)
        posted->first = receive;
    else
        graph->after[posted->last] = receive;
    posted->last = receive;
}

/* The receive that a message of a channel is for; -1 where none has begun. */
static inline int32_t matched(Graph *graph, int32_t channel)
{
    Posted *posted = graph->posted + channel;
    int32_t receive = posted->first;
    if (receive >= 0)
        posted->first = graph->after[receive];
    else
        graph->there[channel]++;
    return receive;
}

/* Whether one of its messages is there, which it then has. */
static inline int had(Graph *graph, int32_t channel)
{
    if (!graph->there[channel])
        return 0;
    graph->there[channel]--;
    return 1;
}

enum { AT_END, AT_BEGIN };

typedef struct {
    int32_t *items;
    int64_t end;
} List;

static inline void release_all(const Graph *graph, int32_t operation, int when, List *ready)
{
    for (int32_t k = graph->nodes[operation].when[when]; k >= 0; k = graph->waits[k].after)
        if (!--graph->nodes[graph->waits[k].waiter].waits)
            ready->items[ready->end++] = graph->waits[k].waiter;
}

/* Whether each message fits into the largest receive of its channel; -1 where there is no memory. */
static int all_fit(int64_t n, int64_t channels, const uint8_t *kinds, const int64_t *sizes, const int32_t *channel)
{
    int64_t *room = PyMem_RawCalloc((size_t)channels + 1, 8);
    int fit = 1;
    if (!room)
        return -1;
    for (int64_t k = 0; k < n; k++)
        if (kinds[k] == RECV && sizes[k] > room[channel[k]])
            room[channel[k]] = sizes[k];
    for (int64_t k = 0; k < n; k++)
        fit &= kinds[k] != SEND || sizes[k] <= room[channel[k]];
    PyMem_RawFree(room);
    return fit;
}

/* ends(kinds, sizes, channel, channels, waiters, waited, at_begin): whether all is done, in the order of the twin, and
   no message is left, or too long for its receives. */
static PyObject *goal_ends(PyObject *module, PyObject *args)
{
    Py_buffer of_kinds, of_sizes, of_channel, of_waiters, of_waited, of_begin;
    Py_ssize_t channels;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*ny*y*y*", &of_kinds, &of_sizes, &of_channel, &channels, &of_waiters, &of_waited,
                          &of_begin))
        return NULL;
    const uint8_t *kinds = of_kinds.buf;
    const int32_t *channel = of_channel.buf;
    int64_t n = of_kinds.len, done = 0, left = 0;
    int fit = -1;
    Graph graph;
    List ready = {take((size_t)n * 4), 0};
    int made = make_graph(&graph, n, of_begin.len, channels, of_waiters.buf, of_waited.buf, of_begin.buf);
    if (made && ready.items) {
        Py_BEGIN_ALLOW_THREADS;
        fit = all_fit(n, channels, kinds, of_sizes.buf, channel);
        for (int32_t k = 0; k < n; k++)
            if (!graph.nodes[k].waits)
                ready.items[ready.end++] = k;
        for (int64_t first = 0; first < ready.end; first++) {
            int32_t one = ready.items[first], ended = one;
            release_all(&graph, one, AT_BEGIN, &ready);
            if (kinds[one] == RECV && !had(&graph, channel[one])) {
                post(&graph, channel[one], one);
                continue;
            }
            release_all(&graph, one, AT_END, &ready);
            done++;
            if (kinds[one] == SEND && (ended = matched(&graph, channel[one])) >= 0) {
                release_all(&graph, ended, AT_END, &ready);
                done++;
            }
        }
        for (Py_ssize_t k = 0; k < channels; k++)
            left += graph.there[k];
        Py_END_ALLOW_THREADS;
    }
    drop_graph(&graph);
    PyMem_RawFree(ready.items);
    Py_buffer *views[] = {&of_kinds, &of_sizes, &of_channel, &of_waiters, &of_waited, &of_begin};
    for (int k = 0; k < 6; k++)
        PyBuffer_Release(views[k]);
    return fit >= 0 ? PyBool_FromLong(fit && done == n && !left) : PyErr_NoMemory();
}

/* -- the simulated machine ---------------------------------------------------------------------------------------- */

enum { LATEST, EARLIEST, ADVERSARY };

typedef struct {
    int64_t clock, next_submission, next_acquisition, busy, stalled, submission;
    int32_t sending;            /* the operation whose message waits for its acceptance; -1: none */
    int32_t receives;           /* that have begun */
    int32_t first, last;        /* messages delivered and not acquired; -1: none */
    int32_t ready;              /* operations that wait for nothing: a heap */
    uint8_t waiting, acquired;  /* for a delivery; a message before */
} Processor;

typedef struct {
    int32_t waiting, first, last; /* sources of messages that are not accepted, in order of submission */
    int32_t in_transit, congested;
    int64_t burst, burst_end;     /* the first step of the adversary's, and the last */
} Dest;

typedef struct {
    int32_t submissions, deliveries; /* lists of processors and of messages; -1: empty */
} Slot;

typedef struct {
    int64_t time;
    int32_t pid, message; /* one of them is -1 */
} Event;

typedef struct {
    /* the schedule and the machine */
    const int64_t *begins, *sizes, *streams; /* steps that the further words of each message take; NULL: none */
    const uint8_t *kinds;
    const int32_t *peers, *channel;
    int64_t p, n, L, o, G, capacity;
    double step;
    int kind;
    Graph graph;
    /* what happens when: soon, in slots of a wheel; later, in a heap */
    int64_t now, span, in_wheel;
    Slot *wheel;
    uint64_t *full; /* of each slot, whether something is in it */
    Event *later;
    int64_t later_end, later_room;
    /* who does what */
    Processor *processors;
    Dest *dests;
    uint64_t *taken; /* of each destination, steps at which something will be delivered, modulo `reach` */
    int64_t reach;
    int32_t *ready, *going, *congested, *accepted, *submitting; /* the heaps; lists of a step */
    int32_t *before, *after, *next_submission, *waiting_message; /* of processors, in lists */
    int32_t *next_message; /* of messages, in lists */
    int64_t going_end, congested_end, accepted_end;
    /* the trace */
    int64_t messages, *source, *operation, *submission, *acceptance, *delivery, *acquisition, *most;
    int failed; /* no memory, or a time above what is counted here */
} Machine;

static const int64_t FAR = INT64_C(1) << 61;

static inline void put_in_wheel(Machine *machine, int64_t time, int32_t pid, int32_t message)
{
    int64_t place = time & (machine->span - 1);
    Slot *slot = machine->wheel + place;
    if (slot->submissions < 0 && slot->deliveries < 0) {
        machine->full[place >> 6] |= UINT64_C(1) << (place & 63);
        machine->in_wheel++;
    }
    if (pid >= 0) {
        machine->next_submission[pid] = slot->submissions;
        slot->submissions = pid;
    } else {
        machine->next_message[message] = slot->deliveries;
        slot->deliveries = message;
    }
}

static void happen(Machine *machine, int64_t time, int32_t pid, int32_t message)
{
    if (time < machine->now + machine->span) {
        put_in_wheel(machine, time, pid, message);
        return;
    }
    if (machine->later_end == machine->later_room) {
        int64_t room = 2 * machine->later_room + 64;
        Event *larger = PyMem_RawRealloc(machine->later, (size_t)room * sizeof(Event));
        if (!larger) {
            machine->failed = 1;
            return;
        }
        machine->later = larger, machine->later_room = room;
    }
    int64_t k = machine->later_end++;
    for (; k && machine->later[(k - 1) / 2].time > time; k = (k - 1) / 2)
        machine->later[k] = machine->later[(k - 1) / 2];
    machine->later[k] = (Event){time, pid, message};
}

static Event first_later(Machine *machine)
{
    Event *heap = machine->later, found = heap[0], last = heap[--machine->later_end];
    int64_t k = 0, end = machine->later_end;
    for (int64_t child; (child = 2 * k + 1) < end; k = child) {
        child += child + 1 < end && heap[child + 1].time < heap[child].time;
        if (heap[child].time >= last.time)
            break;
        heap[k] = heap[child];
    }
    heap[k] = last;
    return found;
}

/* Goes to the next time at which something happens; 0 where nothing does. */
static int go_on(Machine *machine)
{
    int64_t next = FAR;
    if (machine->in_wheel) {
        int64_t mask = machine->span - 1, at = machine->now & mask, word = at >> 6, words = machine->span >> 6;
        uint64_t bits = machine->full[word] & (~UINT64_C(0) << (at & 63));
        while (!bits) /* round the wheel: what is before `at` is of the next round */
            bits = machine->full[word = (word + 1) & (words - 1)];
        int64_t place = word << 6 | __builtin_ctzll(bits);
        next = machine->now + ((place - at) & mask);
    }
    if (machine->later_end && machine->later[0].time < next)
        next = machine->later[0].time;
    if (next == FAR)
        return 0;
    machine->now = next;
    while (machine->later_end && machine->later[0].time < next + machine->span) {
        Event event = first_later(machine);
        put_in_wheel(machine, event.time, event.pid, event.message);
    }
    return 1;
}

static inline void push(Machine *machine, int64_t pid, int32_t operation)
{
    int32_t *heap = machine->ready + machine->begins[pid], k = machine->processors[pid].ready++;
    for (; k && heap[(k - 1) / 2] > operation; k = (k - 1) / 2)
        heap[k] = heap[(k - 1) / 2];
    heap[k] = operation;
}

static inline int32_t pop(Machine *machine, int64_t pid)
{
    int32_t *heap = machine->ready + machine->begins[pid], end = --machine->processors[pid].ready;
    int32_t found = heap[0], last = heap[end], k = 0;
    for (int32_t child; (child = 2 * k + 1) < end; k = child) {
        child += child + 1 < end && heap[child + 1] < heap[child];
        if (heap[child] >= last)
            break;
        heap[k] = heap[child];
    }
    heap[k] = last;
    return found;
}

static inline void release(Machine *machine, int64_t pid, int32_t operation, int when)
{
    const Graph *graph = &machine->graph;
    for (int32_t k = graph->nodes[operation].when[when]; k >= 0; k = graph->waits[k].after)
        if (!--graph->nodes[graph->waits[k].waiter].waits)
            push(machine, pid, graph->waits[k].waiter);
}

static inline int64_t stream_of(const Machine *machine, int64_t operation)
{
    return machine->streams ? machine->streams[operation] : 0;
}

/* Begins an operation; whether that waits for its acceptance. */
static inline int begin(Machine *machine, int64_t pid, int32_t operation)
{
    Processor *processor = machine->processors + pid;
    release(machine, pid, operation, AT_BEGIN);
    if (machine->kinds[operation] == CALC) {
        double steps = nearbyint((double)machine->sizes[operation] * 1e-9 / machine->step);
        if (!(steps < (double)FAR) || processor->clock + (int64_t)steps > FAR) {
            machine->failed = 1;
            return 1;
        }
        processor->clock += (int64_t)steps;
        processor->busy += (int64_t)steps;
    } else if (machine->kinds[operation] == SEND) {
        int64_t at = processor->clock + machine->o;
        if (at < processor->next_submission)
            at = processor->next_submission;
        processor->busy += machine->o;
        processor->sending = operation, processor->submission = at;
        happen(machine, at, (int32_t)pid, -1);
        return 1;
    } else if (!had(&machine->graph, machine->channel[operation])) {
        post(&machine->graph, machine->channel[operation], operation);
        processor->receives++;
        return 0;
    }
    release(machine, pid, operation, AT_END);
    return 0;
}

/* Lets a processor go on, as what it waited for has come. */
static void go(Machine *machine, int64_t pid)
{
    Processor *processor = machine->processors + pid;
    processor->waiting = 0;
    if (processor->sending >= 0) {
        int32_t operation = processor->sending;
        int64_t at = processor->submission, stream = stream_of(machine, operation), now = machine->now;
        processor->sending = -1;
        processor->next_submission = at + stream + machine->G;
        if (now > at) {
            processor->stalled += now - at;
            if (now + stream >= processor->next_submission)
                processor->next_submission = now + stream + 1;
        }
        processor->clock = now;
        release(machine, pid, operation, AT_END);
    }
    while (processor->ready || processor->receives) {
        if (processor->ready) {
            if (begin(machine, pid, pop(machine, pid)))
                return;
        } else if (processor->first >= 0) {
            int32_t message = processor->first;
            int64_t operation = machine->operation[message], from = processor->next_acquisition;
            processor->first = machine->next_message[message];
            if (processor->acquired)
                from += stream_of(machine, operation);
            if (from < machine->delivery[message])
                from = machine->delivery[message];
            if (from < processor->clock)
                from = processor->clock;
            processor->next_acquisition = from + machine->G;
            processor->acquired = 1;
            processor->clock = from + machine->o;
            processor->busy += machine->o;
            machine->acquisition[message] = processor->clock;
            int32_t receive = matched(&machine->graph, machine->channel[operation]);
            if (receive >= 0) {
                processor->receives--;
                release(machine, pid, receive, AT_END);
            }
        } else {
            processor->waiting = 1;
            return;
        }
    }
}

static inline int is_taken(const Machine *machine, int64_t dest, int64_t step)
{
    int64_t bit = dest * machine->reach + (step & (machine->reach - 1));
    return machine->taken[bit >> 6] >> (bit & 63) & 1;
}

static inline void toggle(Machine *machine, int64_t dest, int64_t step)
{
    int64_t bit = dest * machine->reach + (step & (machine->reach - 1));
    machine->taken[bit >> 6] ^= UINT64_C(1) << (bit & 63);
}

/* When a message that has left by a time is delivered. Of L steps fewer than ceil(L/G) are taken. */
static int64_t delivery_of(Machine *machine, int64_t dest, int64_t sent)
{
    int64_t step;
    if (machine->kind == EARLIEST) {
        for (step = sent + 1; is_taken(machine, dest, step);)
            step++;
        return step;
    }
    Dest *to = machine->dests + dest;
    step = to->burst_end + 1;
    if (machine->kind == LATEST || sent >= to->burst || step > sent + machine->L || is_taken(machine, dest, step)) {
        for (step = sent + machine->L; is_taken(machine, dest, step);)
            step--;
        if (sent >= to->burst)
            to->burst = step;
    }
    if (step > to->burst_end)
        to->burst_end = step;
    return step;
}

static void accept(Machine *machine, int32_t dest)
{
    Dest *to = machine->dests + dest;
    int64_t room = machine->capacity - to->in_transit;
    int last_first = machine->kind == ADVERSARY && room < to->waiting;
    for (; room > 0 && to->waiting; room--) {
        int32_t pid = last_first ? to->last : to->first, message = machine->waiting_message[pid];
        int32_t before = machine->before[pid], after = machine->after[pid];
        *(before < 0 ? &to->first : &machine->after[before]) = after;
        *(after < 0 ? &to->last : &machine->before[after]) = before;
        to->waiting--;
        int64_t sent = machine->now + stream_of(machine, machine->operation[message]);
        int64_t at = delivery_of(machine, dest, sent);
        toggle(machine, dest, at);
        machine->acceptance[message] = machine->now;
        happen(machine, at, -1, message);
        machine->accepted[machine->accepted_end++] = pid;
        to->in_transit++;
    }
    if (to->in_transit > machine->most[dest])
        machine->most[dest] = to->in_transit;
}

static inline void congest(Machine *machine, int32_t dest)
{
    if (!machine->dests[dest].congested) {
        machine->dests[dest].congested = 1;
        machine->congested[machine->congested_end++] = dest;
    }
}

static int by_number(const void *one, const void *other)
{
    int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

/* A step, as in `Engine._simulate`. */
static void step(Machine *machine)
{
    Slot *slot = machine->wheel + (machine->now & (machine->span - 1));
    machine->congested_end = machine->accepted_end = 0;
    /* 1. Deliveries, which free capacity. */
    for (int32_t message = slot->deliveries, next; message >= 0; message = next) {
        next = machine->next_message[message];
        int32_t dest = machine->peers[machine->operation[message]];
        Processor *processor = machine->processors + dest;
        machine->delivery[message] = machine->now;
        toggle(machine, dest, machine->now);
        machine->dests[dest].in_transit--;
        if (machine->dests[dest].waiting)
            congest(machine, dest);
        machine->next_message[message] = -1;
        if (processor->first < 0)
            processor->first = message;
        else
            machine->next_message[processor->last] = message;
        processor->last = message;
        if (processor->waiting)
            machine->going[machine->going_end++] = dest;
    }
    /* 2. Processors go on that waited for a message. */
    for (int64_t k = 0; k < machine->going_end; k++)
        go(machine, machine->going[k]);
    machine->going_end = 0;
    /* 3. Submissions are taken by pid, and accepted while there is room. */
    int64_t count = 0;
    for (int32_t pid = slot->submissions; pid >= 0; pid = machine->next_submission[pid])
        machine->submitting[count++] = pid;
    int sorted = 1;
    for (int64_t k = 1; k < count && sorted; k++)
        sorted = machine->submitting[k - 1] > machine->submitting[k];
    if (sorted) /* backwards, as lists grow at their begin */
        for (int64_t k = 0; k < count / 2; k++) {
            int32_t swap = machine->submitting[k];
            machine->submitting[k] = machine->submitting[count - 1 - k];
            machine->submitting[count - 1 - k] = swap;
        }
    else
        qsort(machine->submitting, (size_t)count, sizeof(int32_t), by_number);
    for (int64_t k = 0; k < count; k++) {
        int32_t pid = machine->submitting[k], operation = machine->processors[pid].sending;
        int32_t dest = machine->peers[operation], message = (int32_t)machine->messages++;
        Dest *to = machine->dests + dest;
        machine->source[message] = pid;
        machine->operation[message] = operation;
        machine->submission[message] = machine->now;
        machine->acceptance[message] = machine->delivery[message] = machine->acquisition[message] = -1;
        machine->waiting_message[pid] = message;
        machine->before[pid] = to->waiting ? to->last : -1, machine->after[pid] = -1;
        *(to->waiting ? &machine->after[to->last] : &to->first) = pid;
        to->last = pid;
        to->waiting++;
        congest(machine, dest);
    }
    for (int64_t k = 0; k < machine->congested_end; k++) {
        machine->dests[machine->congested[k]].congested = 0;
        accept(machine, machine->congested[k]);
    }
    *slot = (Slot){-1, -1};
    int64_t place = slot - machine->wheel;
    if (machine->full[place >> 6] >> (place & 63) & 1) {
        machine->full[place >> 6] &= ~(UINT64_C(1) << (place & 63));
        machine->in_wheel--;
    }
    /* 4. Their processors go on. */
    for (int64_t k = 0; k < machine->accepted_end; k++)
        go(machine, machine->accepted[k]);
}

/* Memory for all; 0 where there is none. */
static int prepare(Machine *machine, int64_t furthest)
{
    size_t p = (size_t)machine->p;
    for (machine->reach = 64; machine->reach <= furthest + machine->L;)
        machine->reach *= 2;
    for (machine->span = 256; machine->span < machine->reach && machine->span < 1 << 16;)
        machine->span *= 2;
    size_t span = (size_t)machine->span, bits = p * (size_t)machine->reach / 64;
    machine->wheel = take(span * sizeof(Slot));
    machine->full = PyMem_RawCalloc(span / 64, 8);
    machine->processors = PyMem_RawCalloc(p, sizeof(Processor));
    machine->dests = PyMem_RawCalloc(p, sizeof(Dest));
    machine->taken = PyMem_RawCalloc(bits, 8);
    machine->ready = take((size_t)machine->n * 4);
    machine->next_message = take((size_t)machine->n * 4);
    int32_t *lists = take(8 * p * 4);
    machine->going = lists;
    if (!machine->wheel || !machine->full || !machine->processors || !machine->dests || !machine->taken
        || !machine->ready || !machine->next_message || !lists)
        return 0;
    machine->congested = lists + p, machine->accepted = lists + 2 * p, machine->submitting = lists + 3 * p;
    machine->before = lists + 4 * p, machine->after = lists + 5 * p, machine->next_submission = lists + 6 * p;
    machine->waiting_message = lists + 7 * p;
    for (size_t k = 0; k < span; k++)
        machine->wheel[k] = (Slot){-1, -1};
    for (size_t pid = 0; pid < p; pid++) {
        machine->processors[pid].sending = machine->processors[pid].first = -1;
        machine->dests[pid].first = machine->dests[pid].last = -1;
        machine->going[pid] = (int32_t)pid; /* at time 0 all go */
        for (int64_t k = machine->begins[pid]; k < machine->begins[pid + 1]; k++)
            if (!machine->graph.nodes[k].waits)
                push(machine, (int64_t)pid, (int32_t)k);
    }
    machine->going_end = machine->p;
    return 1;
}

/* play((begins, kinds, sizes, peers, channel, channels, waiters, waited, at_begin), streams, furthest, (L, o, G,
   capacity, step, kind), (source, operation, submission, acceptance, delivery, acquisition), (finished, busy, stalled,
   most)): how many messages were submitted, their trace and the processors' figures being put into the arrays; None
   where times are above what is counted here. `streams` is empty or has the steps of each operation's further words,
   `furthest` the most of them. */
static PyObject *goal_play(PyObject *module, PyObject *args)
{
    enum { VIEWS = 19 };
    Py_buffer of[VIEWS];
    Py_ssize_t channels;
    long long furthest, L, o, G, capacity;
    Machine machine = {.now = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "(y*y*y*y*y*ny*y*y*)y*L(LLLLdi)(w*w*w*w*w*w*)(w*w*w*w*)", of, of + 1, of + 2, of + 3,
                          of + 4, &channels, of + 5, of + 6, of + 7, of + 8, &furthest, &L, &o, &G, &capacity,
                          &machine.step, &machine.kind, of + 9, of + 10, of + 11, of + 12, of + 13, of + 14, of + 15,
                          of + 16, of + 17, of + 18))
        return NULL;
    machine.L = L, machine.o = o, machine.G = G, machine.capacity = capacity;
    machine.begins = of[0].buf, machine.kinds = of[1].buf, machine.sizes = of[2].buf, machine.peers = of[3].buf;
    machine.channel = of[4].buf, machine.streams = of[8].len ? of[8].buf : NULL;
    machine.p = of[0].len / 8 - 1, machine.n = of[1].len;
    int64_t **trace[] = {&machine.source, &machine.operation, &machine.submission, &machine.acceptance,
                         &machine.delivery, &machine.acquisition};
    for (int k = 0; k < 6; k++)
        *trace[k] = of[9 + k].buf;
    int64_t *finished = of[15].buf, *busy = of[16].buf, *stalled = of[17].buf;
    machine.most = of[18].buf;
    int made = make_graph(&machine.graph, machine.n, of[7].len, channels, of[5].buf, of[6].buf, of[7].buf);
    if (made && (made = prepare(&machine, furthest))) {
        Py_BEGIN_ALLOW_THREADS;
        do
            step(&machine);
        while (!machine.failed && go_on(&machine));
        for (int64_t pid = 0; pid < machine.p; pid++) {
            const Processor *processor = machine.processors + pid;
            finished[pid] = processor->clock, busy[pid] = processor->busy, stalled[pid] = processor->stalled;
        }
        Py_END_ALLOW_THREADS;
    }
    drop_graph(&machine.graph);
    void *taken[] = {machine.wheel, machine.full, machine.later, machine.processors, machine.dests, machine.taken,
                     machine.ready, machine.next_message, machine.going};
    for (size_t k = 0; k < sizeof(taken) / sizeof(*taken); k++)
        PyMem_RawFree(taken[k]);
    for (int k = 0; k < VIEWS; k++)
        PyBuffer_Release(of + k);
    if (!made)
        return PyErr_NoMemory();
    if (machine.failed)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(machine.messages);
}

static PyMethodDef methods[] = {
    {"read", goal_read, METH_O, "See `_read` in goal.py."},
    {"channels", goal_channels, METH_VARARGS, "See `Columns.channels` in columns.py."},
    {"ends", goal_ends, METH_VARARGS, "See `_require_end` in goal.py."},
    {"play", goal_play, METH_VARARGS, "See `play` in columns.py."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_goal", .m_methods = methods};

PyMODINIT_FUNC PyInit__goal(void)
{
    classify();
    return PyModule_Create(&definition);
}
