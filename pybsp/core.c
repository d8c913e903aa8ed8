/* The innermost part of small exchanges, compiled: what processors do on a board in shared memory (transport/board.py),
   packed mail (transport/wire.py), which is what small arrays and single numbers are sent as, and rows of the log. All
   of it has a twin in Python, which runs where this was not built, or where PYBSP_COMPILED=0: transport/meeting.py and
   chunk.py. They do the same to the same memory, so processors with and without this meet on one board. The rules of
   the protocol stand at the twin's lines. What is rare is left to it: a method `_name` of the board. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <marshal.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include "ground/clock.h"
#include "ground/streaming.h"

/* As transport/wire.py has them, and others below: a test reads these lines. */
#define STATUS_EPOCH_SHIFT 16
#define TAG_EPOCH_SHIFT 1
#define SOMETHING (1 << 8)
#define BORROWS (1 << 9)
#define SHOWS (1 << 10)
#define KIND_AND_FLAGS 255
#define SLOT 3
#define TAG 1
#define BYTES 2
#define HAS 1
#define AREA (1 << 17)
#define ALIGN 16

#define PACKED 1
#define SEVERAL 4
#define LENT 5
#define PACKED_MOST (1 << 16) /* bytes of all mail to a processor: */
#define PACKED_ONE (15 << 13) /* while nothing goes to others; */
#define PACKED_SMALL (1 << 10) /* what is larger goes as records then; */
#define PACKED_MANY (1 << 18) /* nothing is packed then */
#define PACKED_HEADER 24
#define PACKED_NUMBERS 16
#define ARRAY_KIND 7
#define NUMBER_KIND 8
#define SCALAR_KIND 9
#define BYTES_KIND 10
#define PICKLE_KIND 11
#define CHAR_SHIFT 8
#define NDIM_SHIFT 16
#define TAG_SHIFT 24
#define SIZE_SHIFT 32
#define TAG_MOST 255 /* bytes */
#define MARSHAL 2
#define COLUMNS 11 /* of a row, as log.py has them: */
#define COUNTS 7   /* the last of them */
#define BY_MAIL 2
#define ITEMS 256 /* that are laid out by this, at most */
#define DEALT 64 /* processors that `deal` deals to, at most */
#define LOOKING 3e-6 /* seconds for each of a waiter's tries: from a wait in Python the way back is longer */
#define CROWDED 100  /* turns of others on the core, where there are more ranks than cores: board.py */
#define SHORT 1e-6   /* seconds: a longer turn counts as one for each of them */

enum { NOTHING, FLOAT, FLOAT64, INT, INT64 }; /* what a record shows, as short_records.py has them */

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

#define EXPECT(holds, what) do if (!(holds)) return PyErr_Format(PyExc_TypeError, "expected " what); while (0)
#define FITS(of) (!PyBytes_Check(of) || PyBytes_GET_SIZE(of) <= AREA - 8) /* in a record */
#define METHOD(name, called) {name, (PyCFunction)(void (*)(void))(called), METH_FASTCALL, NULL}
#define STAMP(log, at) ((log) ? (void)((log)->at = now()) : (void)0)
#define LOAD(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#define STORE(at, word) __atomic_store_n((at), (word), __ATOMIC_RELEASE) /* all that the twin's barrier is for */

/* What a processor notes: the rows of its open chunk, and what is known of the superstep that goes on. */
typedef struct {
    PyObject_HEAD
    PyObject *memory; /* bytearray */
    Py_ssize_t end;   /* of the rows, in numbers */
    double label_number, work, left, entered, over;
    double words, messages; /* of the mail that goes out */
} Chunk;

#define OBJECTS 6

typedef struct {
    PyObject_HEAD
    long long number; /* of the last exchange */
    union {
        PyObject *objects[OBJECTS];
        struct {
            PyObject *got;       /* list: data that came in the last few exchanges */
            PyObject *lending;   /* dict: of this processor's, that others may read */
            PyObject *borrowing; /* dict: of others, read here */
            PyObject *dropped;   /* dict: of what processors here borrowed, that is read no longer */
            PyObject *waiter;
            PyObject *settled; /* bytes: this processor's borrows, how many they are, and until when; else None */
        };
    };
    long long lent, lent_until; /* the bits of all of it, which are that before an exchange */
    Py_ssize_t size, own;
    double longest, last; /* turns of others on this core in the last wait with any; 0 where it did not end by that */
    Py_buffer *views;  /* of the parts of all processors of the board */
    Py_ssize_t status; /* where it lies in a part, in bytes */
    Py_ssize_t borrows[2], slots[2], areas[2];
} Meeting;

/* What `know` was told: numpy's, and the classes of a received message and of a section, which are tuples. */
static PyObject *array_type, *dtype_of, *message_type, *section_type, *scalar_type, *float64_type, *int64_type;
static PyObject *unpickled, *name_tries, *dtypes[128]; /* by their character */

#define word_of(self, k, at) ((int64_t *)((char *)(self)->views[k].buf + (at)))
#define status_of(self, k) word_of(self, k, (self)->status + 8 * ((self)->number & 1))

/* 0, or -1: an error, of a call whose result is not wanted. */
static int done(PyObject *result)
{
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* A number, whose reference it takes; -1: an error. */
static long number_of(PyObject *given)
{
    long number = given ? PyLong_AsLong(given) : -1;
    Py_XDECREF(given);
    return number;
}

/* Add to a list what is NULL where there is an error, and whose reference it takes; whether there is one. */
static int add(PyObject *list, PyObject *one)
{
    int failed = !one || PyList_Append(list, one);
    Py_XDECREF(one);
    return failed;
}

static PyTypeObject chunk_type;
#define HEAP Py_TPFLAGS_HEAPTYPE /* of a class made in Python */
typedef PyObject *const *Args;

/* -- the log ------------------------------------------------------------------------------------------------------- */

#define COUNTED(of) (PyBytes_CheckExact(of) && PyBytes_GET_SIZE(of) == 8 * COUNTS) /* by `chunk.pack_counts` */
#define counts_of(of) ((const double *)PyBytes_AS_STRING(of))
#define LOG(of) (PyObject_TypeCheck((of), &chunk_type) ? (Chunk *)(of) : NULL)

/* The row of a superstep, whose exchange has ended then. Counts: the columns from WORDS_OUT on. -1: an error. */
static int note_row(Chunk *log, double label, double leave, const double counts[COUNTS])
{
    Py_ssize_t most = log->memory && PyByteArray_CheckExact(log->memory) ? PyByteArray_GET_SIZE(log->memory) / 8 : 0;
    if (log->end < 0 || log->end > most - COLUMNS)
        return PyErr_SetString(PyExc_IndexError, "Chunk: no room for a row"), -1;
    double *row = (double *)PyByteArray_AS_STRING(log->memory) + log->end;
    row[0] = log->label_number ? log->label_number : label;
    row[1] = log->work;
    row[2] = log->entered - log->left;
    row[3] = leave - log->left;
    memcpy(row + COLUMNS - COUNTS, counts, 8 * COUNTS);
    log->work = 0;
    log->left = leave;
    log->end += COLUMNS;
    return log->end < most ? 0 : done(PyObject_CallMethod((PyObject *)log, "turn", NULL));
}

static PyObject *note_counted(Chunk *self, Args args, Py_ssize_t count)
{
    EXPECT(count == 3 && COUNTED(args[2]), "a label, a time and counts");
    double label = PyFloat_AsDouble(args[0]), leave = PyFloat_AsDouble(args[1]);
    return PyErr_Occurred() || note_row(self, label, leave, counts_of(args[2])) ? NULL : Py_NewRef(Py_None);
}

static void chunk_dealloc(Chunk *self)
{
    Py_XDECREF(self->memory);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef chunk_members[] = {
    {"memory", T_OBJECT_EX, offsetof(Chunk, memory), 0, NULL}, {"end", T_PYSSIZET, offsetof(Chunk, end), 0, NULL},
    {"label_number", T_DOUBLE, offsetof(Chunk, label_number), 0, NULL},
    {"work", T_DOUBLE, offsetof(Chunk, work), 0, NULL}, {"left", T_DOUBLE, offsetof(Chunk, left), 0, NULL},
    {"entered", T_DOUBLE, offsetof(Chunk, entered), 0, NULL}, {"over", T_DOUBLE, offsetof(Chunk, over), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef chunk_methods[] = {METHOD("note_row", note_counted), {NULL, NULL, 0, NULL}};

static PyTypeObject chunk_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pybsp._core.Chunk",
    .tp_doc = "See pybsp/ground/chunk.py.", .tp_basicsize = sizeof(Chunk),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)chunk_dealloc, .tp_methods = chunk_methods, .tp_members = chunk_members,
};

/* -- the board ----------------------------------------------------------------------------------------------------- */

#define READS(self) (PyList_GET_SIZE((self)->got) || PyDict_GET_SIZE((self)->borrowing)) /* most often not */

/* Whether this processor reads no data of others, or none but what is old, which stays what its borrows say. What came
   and nothing refers to any more, as most of it after a superstep, is forgotten. */
static int settled(Meeting *self)
{
    for (Py_ssize_t i = PyList_GET_SIZE(self->got) - 1; i >= 0; i--)
        if (Py_REFCNT(PyTuple_GET_ITEM(PyList_GET_ITEM(self->got, i), 2)) == 1 &&
            PyList_SetSlice(self->got, i, i + 1, NULL))
            PyErr_Clear(); /* the twin sees to it */
    if (PyList_GET_SIZE(self->got) || !PyDict_GET_SIZE(self->borrowing))
        return !PyList_GET_SIZE(self->got);
    /* Another board may have seen to what was dropped since: then there is less. */
    const int64_t *row = PyBytes_CheckExact(self->settled) ? (int64_t *)PyBytes_AS_STRING(self->settled) : NULL;
    return row && !PyDict_GET_SIZE(self->dropped) && row[self->size] == PyDict_GET_SIZE(self->borrowing) &&
           self->number < row[self->size + 1];
}

/* Post what is read of others; returns the flag that the status has then; -1: an error. */
static int64_t post_borrowed(Meeting *self, int parity)
{
    int same = settled(self), some = PyDict_GET_SIZE(self->borrowing) > 0;
    if (same && some)
        memcpy(word_of(self, self->own, self->borrows[parity]), PyBytes_AS_STRING(self->settled), 8 * self->size);
    if (same)
        return some ? BORROWS : 0;
    return number_of(PyObject_CallMethod((PyObject *)self, "_post_borrowed", "i", parity));
}

/* Let go what was lent and none of the others reads, all of which are here; -1: an error. */
static int reclaim(Meeting *self)
{
    int64_t reading = 1; /* what this exchange sends is still to be read */
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (k != self->own && *status_of(self, k) & BORROWS)
            reading |= *(word_of(self, k, self->borrows[self->number & 1]) + self->own);
    int stays = self->number < self->lent_until && !(self->lent & ~reading); /* all of it is old, and read */
    return stays ? 0 : done(PyObject_CallMethod((PyObject *)self, "_reclaim", "L", (long long)reading));
}

/* Whether all others have entered this exchange; looks for a while, if need be. -1: an error. */
static int all_here(Meeting *self)
{
    int64_t least = (int64_t)self->number << STATUS_EPOCH_SHIFT;
    long tries = 0, turns = -1; /* of others on this core */
    int here = 1;
    for (Py_ssize_t k = 0; here && k < self->size; k++) {
        int64_t *status = status_of(self, k);
        if (k == self->own || LOAD(status) >= least)
            continue;
        if (!tries && (tries = number_of(PyObject_GetAttr(self->waiter, name_tries))) < 0)
            return -1;
        for (double end = tries == 1 || turns > 0 ? 0 : now() + LOOKING * tries; LOAD(status) < least && now() < end;)
            for (int looks = 64; looks && LOAD(status) < least; looks--)
                PAUSE();
        if ((here = LOAD(status) >= least))
            continue;
        if (turns == -1) { /* the waiter learns of the last wait only now, as there is time */
            PyObject *given = tries == 1 ? PyLong_FromLong(CROWDED)
                                         : PyObject_CallMethod(self->waiter, "turns", "dd", self->longest, self->last);
            if ((turns = number_of(given)) < 0)
                return -1;
            self->longest = self->last = 0;
        }
        Py_BEGIN_ALLOW_THREADS;
        for (; turns > 0 && LOAD(status) < least; turns -= 1 + (long)(self->last / SHORT)) {
            double begin = tries == 1 ? 0 : now(); /* with more ranks than cores others are to have it */
            sched_yield();
            self->last = tries == 1 ? 0 : now() - begin;
            self->longest = self->last > self->longest ? self->last : self->longest;
        }
        Py_END_ALLOW_THREADS;
        here = LOAD(status) >= least;
        turns = turns > 0 ? turns : 0;
    }
    self->last = here ? self->last : 0;
    return here;
}

/* An exchange in which nothing is sent. What is read of others is posted before it, and what they read let go after. */
static PyObject *meet_as(Meeting *self, Chunk *log, PyObject *kind, int64_t flags, const char *unlike)
{
    self->number++;
    int64_t borrows = READS(self) ? post_borrowed(self, self->number & 1) : 0;
    int64_t word = PyLong_AsUnsignedLongLongMask(kind) | (int64_t)self->number << STATUS_EPOCH_SHIFT | flags | borrows;
    if (borrows < 0)
        return NULL;
    STAMP(log, entered);
    STORE(status_of(self, self->own), word);
    int here = all_here(self), same = here;
    for (Py_ssize_t k = 0; same > 0 && k < self->size; k++)
        same = !((*status_of(self, k) ^ word) & ~(int64_t)BORROWS);
    STAMP(log, over);
    if (same)
        return same < 0 || (PyDict_GET_SIZE(self->lending) && reclaim(self)) ? NULL : Py_NewRef(Py_True);
    if (here && !flags)
        Py_RETURN_FALSE; /* all are here: the caller sees what they say */
    PyObject *found = PyObject_CallMethod((PyObject *)self, unlike, "L", (long long)word);
    STAMP(log, over);
    return found;
}

/* meet(kind) or meet(kind, log, label, counts): an exchange and, where all did so and it counts, its row in the log. */
static PyObject *noted(Meeting *self, Args args, Py_ssize_t count, int64_t flags, char *end)
{
    EXPECT(count && PyLong_Check(args[0]), "a kind");
    Chunk *log = count == 4 ? LOG(args[1]) : NULL;
    PyObject *same = meet_as(self, log, args[0], flags, end);
    if (log && same == Py_True && COUNTED(args[3]) &&
        note_row(log, PyFloat_AsDouble(args[2]), log->over, counts_of(args[3])))
        Py_CLEAR(same);
    return same;
}

static PyObject *meet(Meeting *self, Args args, Py_ssize_t n) { return noted(self, args, n, 0, "_met"); }
static PyObject *show(Meeting *self, Args args, Py_ssize_t n) { return noted(self, args, n, SHOWS, "_shown"); }

/* The record there of the processor that this is the number of; NULL: an error. */
static int64_t *record_of(Meeting *self, PyObject *number, Py_ssize_t at)
{
    Py_ssize_t k = PyLong_AsSsize_t(number);
    if (k >= 0 && k < self->size)
        return word_of(self, k, at);
    return PyErr_Occurred() ? NULL : (void *)PyErr_Format(PyExc_IndexError, "show_record: no processor of the board");
}

/* show_record(kind, log, label, counts, signature, value, like, sources, members): see the twin's. Notes the row where
   it returns what the sources show; else it is as `show`, of this record. */
static PyObject *show_record(Meeting *self, Args args, Py_ssize_t count)
{
    int tuples = count == 9 && COUNTED(args[3]) && PyTuple_CheckExact(args[7]) && PyTuple_CheckExact(args[8]);
    Chunk *log = tuples ? LOG(args[1]) : NULL;
    EXPECT(log && PyLong_Check(args[0]) && FITS(args[5]) && FITS(args[6]), "a kind, a log, counts, what fits, tuples");
    Py_ssize_t at = self->areas[(self->number + 1) & 1];
    int64_t *record = word_of(self, self->own, at), sign = record[0] = PyLong_AsLongLong(args[4]);
    PyObject *value = args[5], *like = args[6], *sources = args[7], *members = args[8];
    const char *text = PyBytes_Check(like) ? PyBytes_AS_STRING(like) : NULL;
    record[1] = PyFloat_CheckExact(value) ? FLOAT : PyFloat_Check(value) ? FLOAT64
                : value == Py_None        ? NOTHING : PyLong_CheckExact(value) ? INT : INT64;
    if (PyFloat_Check(value))
        memcpy(record + 2, &((PyFloatObject *)value)->ob_fval, 8);
    else if (PyBytes_Check(value))
        memcpy(record + 1, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    else if (value != Py_None)
        record[2] = PyLong_AsLongLong(value);
    PyObject *same = PyErr_Occurred() ? NULL : meet_as(self, log, args[0], SHOWS, "_shown");
    PyObject *found = same == Py_True ? PyList_New(PyTuple_GET_SIZE(sources)) : NULL;
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(members); i++)
        if (!(record = record_of(self, PyTuple_GET_ITEM(members, i), at)) || *record != sign)
            Py_CLEAR(found);
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(sources); i++) {
        record = record_of(self, PyTuple_GET_ITEM(sources, i), at);
        int alike = record && text && !memcmp(record + 1, text, PyBytes_GET_SIZE(like));
        PyObject *one = !record || text        ? (alike ? Py_NewRef(Py_None) : NULL)
                        : record[1] == FLOAT   ? PyFloat_FromDouble(*(double *)(record + 2))
                        : record[1] == FLOAT64 ? PyObject_CallFunction(float64_type, "d", *(double *)(record + 2))
                        : record[1] == INT     ? PyLong_FromLongLong(record[2])
                        : record[1] == INT64   ? PyObject_CallFunction(int64_type, "L", record[2])
                                               : NULL;
        PyList_SET_ITEM(found, i, one);
        if (!one)
            Py_CLEAR(found);
    }
    if (found ? note_row(log, PyFloat_AsDouble(args[2]), log->over, counts_of(args[3])) : !!PyErr_Occurred())
        Py_CLEAR(same);
    else if (found)
        Py_SETREF(same, Py_NewRef(found));
    Py_XDECREF(found);
    return same;
}

/* What lies in an area for a processor of the board. */
typedef struct {
    Py_ssize_t to, bytes;
    const char *text;
} Item;

/* The bytes that so much takes in an area. */
static inline Py_ssize_t aligned(Py_ssize_t bytes) { return bytes > AREA ? AREA + 1 : (bytes + ALIGN - 1) & -ALIGN; }

/* Begin an exchange: lay out what others get. What goes to several, one after the other, lies there once. */
static void lay_out(Meeting *self, const Item *items, Py_ssize_t count)
{
    self->number++;
    int parity = self->number & 1;
    char *part = self->views[self->own].buf;
    int64_t *slots = word_of(self, self->own, self->slots[parity]), tag = (int64_t)self->number << TAG_EPOCH_SHIFT;
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (k != self->own)
            slots[SLOT * k + TAG] = tag;
    Py_ssize_t at = self->areas[parity], place = at;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!i || items[i].text != items[i - 1].text) {
            store(part + at, items[i].text, items[i].bytes);
            place = at, at += aligned(items[i].bytes);
        }
        int64_t *slot = slots + SLOT * items[i].to;
        slot[0] = place;
        slot[TAG] = tag | HAS;
        slot[BYTES] = items[i].bytes;
    }
}

static inline int64_t *header_of(PyObject *mail) { return (int64_t *)PyByteArray_AS_STRING(mail); }

/* A named tuple of these, whose references it takes; NULL where there is an error, or one of them was NULL. */
static PyObject *named(PyObject *type, int count, PyObject *items[])
{
    PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, count);
    for (int i = 0; i < count; i++) {
        if (made)
            PyTuple_SET_ITEM(made, i, items[i]);
        else
            Py_XDECREF(items[i]);
        if (!items[i])
            Py_CLEAR(made);
    }
    return made;
}

/* A section of packed mail, or a plain one, copied out of memory that is used again: `wire.packed_section`. */
static PyObject *section_of(const char *mail, Py_ssize_t bytes)
{
    const int64_t *header = (const int64_t *)mail;
    PyObject *text = PyBytes_FromStringAndSize(NULL, bytes);
    if (text)
        plain_bytes(PyBytes_AS_STRING(text), mail, bytes);
    return named(section_type, 4, (PyObject *[]){text, PyLong_FromLongLong(header[1]), PyLong_FromLongLong(header[2]),
                                                 Py_NewRef(Py_None)});
}

/* gather(kind) or gather(kind, log): notes the superstep, where nothing but mail came; else returns a list. */
static PyObject *gather(Meeting *self, Args args, Py_ssize_t count)
{
    EXPECT(count && PyLong_Check(args[0]), "a kind");
    Chunk *log = count == 2 ? LOG(args[1]) : NULL;
    double counts[COUNTS] = {log ? log->words : 0, 0, log ? log->messages : 0, [COUNTS - 1] = BY_MAIL};
    int64_t doing = PyLong_AsUnsignedLongLongMask(args[0]);
    int here = all_here(self), parity = self->number & 1, all_read = 1;
    int alone = here < 0 || (!here && done(PyObject_CallMethod((PyObject *)self, "wait", NULL))); /* an error */
    PyObject *texts = alone ? NULL : PyList_New(0), *whole = NULL;
    if (!texts)
        return NULL;
    for (Py_ssize_t k = 0; k < self->size; k++) {
        int64_t word = k == self->own ? doing : LOAD(status_of(self, k)); /* to itself it says nothing here */
        if ((word & KIND_AND_FLAGS) != doing)
            goto twin;
        if (word & SOMETHING) {
            int64_t *slot = word_of(self, k, self->slots[parity]) + SLOT * self->own;
            int64_t said = slot[TAG] >> TAG_EPOCH_SHIFT;
            if (said != self->number && done(PyObject_CallMethod((PyObject *)self, "_undelivered", "nL", k, said)))
                goto end;
            if (slot[TAG] & HAS) {
                Py_ssize_t at = slot[0], bytes = slot[BYTES];
                if (at < 0)
                    goto twin;
                if (at + bytes > self->views[k].len &&
                    !PyErr_Format(PyExc_RuntimeError, "a manifest of processor %zd lies outside of its part", k))
                    goto end;
                char *text = (char *)self->views[k].buf + at;
                int read = bytes && *text >= PACKED && *text <= LENT, lent = read && *text == LENT; /* no pickle is */
                all_read &= read && (log ? lent || *text == PACKED : !lent);
                counts[1] += read ? ((int64_t *)text)[1] : 0;
                counts[3] += read ? ((int64_t *)text)[2] : 0;
                PyObject *one = lent   ? PyObject_CallMethod((PyObject *)self, "_borrow", "ny#", k, text, bytes)
                                : read ? section_of(text, bytes)
                                       : PyMemoryView_FromMemory(text, bytes, PyBUF_READ);
                if (add(texts, Py_BuildValue("(nN)", k, one)))
                    goto end;
            }
        }
    }
    if (PyDict_GET_SIZE(self->lending) && reclaim(self))
        goto end;
    if (!log || !all_read || !note_row(log, 0, now(), counts))
        whole = all_read ? PyList_AsTuple(texts) : Py_NewRef(texts);
    goto end;
twin:
    whole = Py_NewRef(Py_None);
end:
    Py_DECREF(texts);
    return whole;
}

/* -- packed mail --------------------------------------------------------------------------------------------------- */

static PyObject *know(PyObject *module, PyObject *args)
{
    if (!PyArg_ParseTuple(args, "OOO!O!O!OOO:know", &array_type, &dtype_of, &PyType_Type, &message_type, &PyType_Type,
                          &section_type, &PyType_Type, &scalar_type, &float64_type, &int64_type, &unpickled))
        return NULL;
    return Py_INCREF(args), Py_NewRef(Py_None); /* has them for good */
}

/* The mail for a processor, with room for so many bytes more; NULL without an error: it goes as records. */
static PyObject *mail_for(PyObject *outgoing, PyObject *dest, Py_ssize_t bytes)
{
    PyObject *mail = PyDict_GetItemWithError(outgoing, dest); /* borrowed */
    Py_ssize_t most = bytes <= PACKED_SMALL ? PACKED_MANY : PyDict_Size(outgoing) > !!mail ? PACKED_MOST : PACKED_ONE;
    if (!mail) {
        if (PyErr_Occurred() || PACKED_HEADER + bytes > most ||
            !(mail = PyByteArray_FromStringAndSize(NULL, PACKED_HEADER + bytes)))
            return NULL;
        memset(header_of(mail), 0, PACKED_HEADER);
        header_of(mail)[0] = PACKED;
        int failed = PyDict_SetItem(outgoing, dest, mail);
        Py_DECREF(mail);
        return failed ? NULL : mail;
    }
    Py_ssize_t used = PyByteArray_CheckExact(mail) ? PyByteArray_GET_SIZE(mail) : PACKED_MANY;
    return used + bytes > most || PyByteArray_Resize(mail, used + bytes) ? NULL : mail;
}

#define PADDED(bytes) (((bytes) + 7) & -8)

/* Add a record; tag: marshal's bytes, or NULL; data: NULL, it comes later. 1, 0 (it goes as Python's), -1: an error. */
static int pack_record(PyObject *outgoing, PyObject *dest, PyObject *tag, int64_t kind, int axes,
                       const Py_ssize_t *shape, const void *data, Py_ssize_t bytes)
{
    int64_t tagged = tag ? PyBytes_GET_SIZE(tag) : 0;
    Py_ssize_t before = 8 + 8 * axes, after = PADDED(bytes) + PADDED(tagged);
    PyObject *mail = tagged > TAG_MOST ? NULL : mail_for(outgoing, dest, before + after);
    if (!mail)
        return PyErr_Occurred() ? -1 : 0;
    char *content = PyByteArray_AS_STRING(mail) + PyByteArray_GET_SIZE(mail) - after;
    int64_t *record = (int64_t *)(content - before), *header = header_of(mail);
    record[0] = kind | (int64_t)axes << NDIM_SHIFT | tagged << TAG_SHIFT | (int64_t)bytes << SIZE_SHIFT;
    memcpy(record + 1, shape, 8 * axes);
    memset(content + (bytes & -8), 0, after - (bytes & -8));
    if (data)
        plain_bytes(content, data, bytes);
    if (tagged)
        memcpy(content + PADDED(bytes), PyBytes_AS_STRING(tag), tagged);
    header[0] += (int64_t)(!tag && (kind & 255) == NUMBER_KIND) << CHAR_SHIFT;
    header[1] += PADDED(bytes) / 8;
    header[2]++;
    return 1;
}

/* Add a number, likewise: of many without tags Python makes one record. */
static int pack_number(PyObject *outgoing, PyObject *dest, PyObject *tag, char type, const void *bits)
{
    PyObject *mail = tag ? NULL : PyDict_GetItemWithError(outgoing, dest);
    int full = mail && PyByteArray_CheckExact(mail) && header_of(mail)[0] >> CHAR_SHIFT == PACKED_NUMBERS;
    return full ? 0 : pack_record(outgoing, dest, tag, NUMBER_KIND | type << CHAR_SHIFT, 0, bits, bits, 8);
}

/* Add an array, or a scalar of numpy, likewise. */
static int pack_array(PyObject *outgoing, PyObject *dest, PyObject *tag, int64_t kind, PyObject *array, int later)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_FORMAT)) {
        PyErr_Clear(); /* a dtype that is no buffer */
        return 0;
    }
    const char *format = view.format;
    int packed = 0;
    if (format[0] && !format[1] && strchr("?bBhHiIlLqQefd", format[0]) && view.len <= PACKED_ONE &&
        (kind == ARRAY_KIND || !view.ndim) && /* a time of numpy's is bytes */
        PyBuffer_IsContiguous(&view, 'C'))
        packed = pack_record(outgoing, dest, tag, kind | format[0] << CHAR_SHIFT, view.ndim, view.shape,
                             later ? NULL : view.buf, view.len);
    PyBuffer_Release(&view);
    return packed;
}

/* pack(outgoing, dest, payload), or with a tag, or with a tag and True: of bytes, which are a pickle, or of an array
   whose content comes later. Whether it was added to packed mail for that processor. Tags are such as marshal reads. */
static PyObject *pack(PyObject *module, Args args, Py_ssize_t count)
{
    EXPECT(count > 2 && PyDict_CheckExact(args[0]), "a dict, a processor and a payload");
    PyObject *payload = args[2], *tag = NULL;
    int packed = 0;
    if (count > 3 && args[3] != Py_None && !(tag = PyMarshal_WriteObjectToString(args[3], MARSHAL)))
        return NULL;
    if ((PyObject *)Py_TYPE(payload) == array_type)
        packed = pack_array(args[0], args[1], tag, ARRAY_KIND, payload, count == 5);
    else if (PyFloat_CheckExact(payload))
        packed = pack_number(args[0], args[1], tag, 'd', &((PyFloatObject *)payload)->ob_fval);
    else if (PyLong_Check(payload) && (PyLong_CheckExact(payload) || PyBool_Check(payload))) {
        int over;
        long long number = PyLong_AsLongLongAndOverflow(payload, &over);
        packed = over ? 0 : pack_number(args[0], args[1], tag, PyBool_Check(payload) ? '?' : 'q', &number);
    }
    else if (PyBytes_CheckExact(payload) && (count == 5 || PyBytes_GET_SIZE(payload) <= PACKED_SMALL))
        packed = pack_record(args[0], args[1], tag, count == 5 ? PICKLE_KIND : BYTES_KIND, 0, NULL,
                             PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload));
    else if (PyObject_TypeCheck(payload, (PyTypeObject *)scalar_type) && !PyType_HasFeature(Py_TYPE(payload), HEAP))
        packed = pack_array(args[0], args[1], tag, SCALAR_KIND, payload, 0);
    Py_XDECREF(tag);
    return packed < 0 ? NULL : PyBool_FromLong(packed);
}

/* The array of a record, which is read there, in the bytes of the mail; or a scalar of numpy. */
static PyObject *array_of(PyObject *mail, const int64_t *record)
{
    int type = record[0] >> CHAR_SHIFT & 127, ndim = record[0] >> NDIM_SHIFT & 255;
    if (!dtypes[type] && !(dtypes[type] = PyObject_CallFunction(dtype_of, "C", type)))
        return NULL;
    PyObject *shape = PyTuple_New(ndim);
    for (int axis = 0; shape && axis < ndim; axis++)
        PyTuple_SET_ITEM(shape, axis, PyLong_FromLongLong(record[1 + axis]));
    Py_ssize_t at = (const char *)(record + 1 + ndim) - PyBytes_AS_STRING(mail);
    PyObject *array = shape ? PyObject_CallFunction(array_type, "OOOn", shape, dtypes[type], mail, at) : NULL;
    if (array && (record[0] & 255) == SCALAR_KIND)
        Py_SETREF(array, PyObject_GetItem(array, shape)); /* of no axes */
    Py_XDECREF(shape);
    return array;
}

/* unpack(source, mail, messages): add the messages of packed mail, or of a list of numbers, which come from there. */
static PyObject *unpack(PyObject *module, Args args, Py_ssize_t count)
{
    int list = PyList_CheckExact(args[1]);
    EXPECT(count == 3 && (list || PyBytes_CheckExact(args[1])) && PyList_CheckExact(args[2]), "a source, mail, a list");
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(args[1]); i++)
        if (add(args[2], named(message_type, 3, (PyObject *[]){Py_NewRef(args[0]), Py_NewRef(Py_None),
                                                               Py_NewRef(PyList_GET_ITEM(args[1], i))})))
            return NULL;
    const char *at = list ? "" : PyBytes_AS_STRING(args[1]) + PACKED_HEADER;
    const char *end = list ? at : at - PACKED_HEADER + PyBytes_GET_SIZE(args[1]);
    while (at < end) {
        const int64_t *record = (const int64_t *)at, head = *record;
        int kind = head & 255, type = head >> CHAR_SHIFT & 127;
        Py_ssize_t bytes = head >> SIZE_SHIFT, tagged = head >> TAG_SHIFT & TAG_MOST;
        const char *content = (const char *)(record + 1 + (head >> NDIM_SHIFT & 255)), *tag = content + PADDED(bytes);
        at = tag + PADDED(tagged);
        EXPECT(at <= end, "packed mail, which ends where its last record does");
        PyObject *payload = kind == PICKLE_KIND   ? PyObject_CallFunction(unpickled, "y#O", content, bytes, args[0])
                            : kind == BYTES_KIND  ? PyBytes_FromStringAndSize(content, bytes)
                            : kind != NUMBER_KIND ? array_of(args[1], record)
                            : type == 'd'         ? PyFloat_FromDouble(*(const double *)content)
                            : type == '?'         ? PyBool_FromLong(*content)
                                                  : PyLong_FromLongLong(*(const int64_t *)content);
        PyObject *note = tagged && payload ? PyMarshal_ReadObjectFromString(tag, tagged) : Py_NewRef(Py_None);
        if (add(args[2], named(message_type, 3, (PyObject *[]){Py_NewRef(args[0]), note, payload})))
            return NULL;
    }
    Py_RETURN_NONE;
}

/* post(kind, outgoing), or with a log, or with one or None and a list of data: enter the next exchange with that for
   others, in bytes; outgoing is empty then. Returns what packed mail counts: words, messages, items, ways. None where
   something is no bytes, or there is no room: then nothing was done. */
static PyObject *post(Meeting *self, Args args, Py_ssize_t count)
{
    EXPECT(count > 1 && PyLong_Check(args[0]) && PyDict_CheckExact(args[1]), "a kind and a dict");
    Chunk *log = count > 2 ? LOG(args[2]) : NULL;
    int64_t kind = PyLong_AsUnsignedLongLongMask(args[0]), words = 0, messages = 0;
    STAMP(log, entered);
    PyObject *dest, *mail;
    Item items[ITEMS];
    Py_ssize_t room = 0, next = 0, i = 0;
    for (; PyDict_Next(args[1], &next, &dest, &mail); i++) {
        Item one = {PyLong_AsSsize_t(dest), 0, NULL};
        if (PyByteArray_CheckExact(mail)) {
            one.bytes = PyByteArray_GET_SIZE(mail), one.text = PyByteArray_AS_STRING(mail);
            words += header_of(mail)[1], messages += header_of(mail)[2];
        }
        else if (PyBytes_CheckExact(mail))
            one.bytes = PyBytes_GET_SIZE(mail), one.text = PyBytes_AS_STRING(mail);
        if (one.to < 0 || one.to >= self->size)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "post: no processor of the board");
        if (i == ITEMS || !one.text || (room += aligned(one.bytes)) > AREA || one.to == self->own)
            Py_RETURN_NONE;
        items[i] = one;
    }
    lay_out(self, items, i);
    int lends = count == 4 && PyList_CheckExact(args[3]) && PyList_GET_SIZE(args[3]);
    int failed = lends && done(PyObject_CallMethod((PyObject *)self, "_lend", "O", args[3]));
    int64_t borrows = failed ? -1 : READS(self) ? post_borrowed(self, self->number & 1) : 0;
    if (borrows < 0)
        return NULL;
    STORE(status_of(self, self->own), kind | (int64_t)self->number << STATUS_EPOCH_SHIFT | SOMETHING | borrows);
    if (log)
        log->words = words, log->messages = messages;
    PyDict_Clear(args[1]);
    return Py_BuildValue("(LLii)", (long long)words, (long long)messages, 0, BY_MAIL);
}

/* deal(texts, dests, items, head, words, p): add items, of so many words each, to the plain sections for their
   destinations, which begin with that head: `wire.plain_text`. Returns whether it could; nothing was done if not. */
static PyObject *deal(PyObject *module, Args args, Py_ssize_t count)
{
    EXPECT(count == 6 && PyDict_CheckExact(args[0]), "a dict, destinations, items, a head, words and processors");
    Py_buffer dests = {0}, items = {0};
    Py_ssize_t counts[DEALT] = {0}, words = PyLong_AsSsize_t(args[4]), p = PyLong_AsSsize_t(args[5]);
    char *ends[DEALT];
    int fits = p <= DEALT && !PyObject_GetBuffer(args[1], &dests, PyBUF_SIMPLE) &&
               !PyObject_GetBuffer(args[2], &items, PyBUF_SIMPLE);
    const int64_t *dest = dests.buf;
    Py_ssize_t n = dests.len / 8, size = n ? items.len / n : 0;
    for (Py_ssize_t i = 0; fits && i < n; i++)
        fits = dest[i] >= 0 && dest[i] < p && ++counts[dest[i]];
    PyErr_Clear(); /* no buffer */
    for (Py_ssize_t k = 0; fits > 0 && k < p; k++) {
        if (!counts[k])
            continue;
        PyObject *key = PyLong_FromSsize_t(k), *text = key ? PyDict_GetItemWithError(args[0], key) : NULL;
        if (!text && (text = PyByteArray_FromObject(args[3])) && !PyDict_SetItem(args[0], key, text))
            Py_DECREF(text);
        Py_XDECREF(key);
        Py_ssize_t used = text ? PyByteArray_GET_SIZE(text) : 0;
        if ((fits = text && !PyByteArray_Resize(text, used + counts[k] * size) ? 1 : -1) < 0)
            break;
        header_of(text)[1] += counts[k] * words;
        header_of(text)[4] += counts[k];
        ends[k] = PyByteArray_AS_STRING(text) + used;
    }
    for (Py_ssize_t i = 0; fits > 0 && i < n; ends[dest[i++]] += size)
        if (size == 8)
            memcpy(ends[dest[i]], (char *)items.buf + i * 8, 8); /* no call */
        else
            memcpy(ends[dest[i]], (char *)items.buf + i * size, size);
    PyBuffer_Release(&dests);
    PyBuffer_Release(&items);
    return fits < 0 ? NULL : PyBool_FromLong(fits);
}

/* -- the type ------------------------------------------------------------------------------------------------------ */

static int meeting_init(Meeting *self, PyObject *args, PyObject *keywords)
{
    PyObject *parts, *given[OBJECTS] = {NULL, NULL, NULL, NULL, NULL, Py_None};
    if (!PyArg_ParseTuple(args, "O!nLOO!O!O!O!n(nn)(nn)(nn):Meeting", &PyList_Type, &parts, &self->own, &self->number,
                          &given[4], &PyList_Type, &given[0], &PyDict_Type, &given[1], &PyDict_Type, &given[2],
                          &PyDict_Type, &given[3], &self->status, &self->borrows[0], &self->borrows[1],
                          &self->slots[0], &self->slots[1], &self->areas[0], &self->areas[1]))
        return -1;
    self->size = PyList_GET_SIZE(parts);
    if (self->own < 0 || self->own >= self->size)
        return PyErr_SetString(PyExc_IndexError, "Meeting: this processor is not among the parts"), -1;
    if (!(self->views = PyMem_Calloc(self->size, sizeof(Py_buffer))))
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t k = 0; k < self->size; k++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(parts, k), &self->views[k], PyBUF_WRITABLE * (k == self->own)))
            return -1;
        if (self->views[k].len < self->areas[0] + AREA || self->views[k].len < self->areas[1] + AREA)
            return PyErr_SetString(PyExc_ValueError, "Meeting: a part is smaller than its board"), -1;
    }
    for (int i = 0; i < OBJECTS; i++)
        Py_XSETREF(self->objects[i], Py_NewRef(given[i]));
    return 0;
}

static int meeting_traverse(Meeting *self, visitproc visit, void *arg)
{
    for (int i = 0; i < OBJECTS; i++)
        Py_VISIT(self->objects[i]);
    return 0;
}

static int meeting_clear(Meeting *self)
{
    for (int i = 0; i < OBJECTS; i++)
        Py_CLEAR(self->objects[i]);
    return 0;
}

static void meeting_dealloc(Meeting *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t k = 0; self->views && k < self->size; k++)
        PyBuffer_Release(&self->views[k]); /* where there is one */
    PyMem_Free(self->views);
    meeting_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef meeting_members[] = {
    {"number", T_LONGLONG, offsetof(Meeting, number), 0, NULL},
    {"_lent_word", T_LONGLONG, offsetof(Meeting, lent), 0, NULL},
    {"_lent_until", T_LONGLONG, offsetof(Meeting, lent_until), 0, NULL},
    {"_settled", T_OBJECT_EX, offsetof(Meeting, settled), 0, NULL}, {NULL, 0, 0, 0, NULL}};

static PyMethodDef meeting_methods[] = {
    METHOD("meet", meet),     METHOD("show", show), METHOD("show_record", show_record),
    METHOD("gather", gather), METHOD("post", post), {NULL, NULL, 0, NULL}};

static PyTypeObject meeting_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pybsp._core.Meeting",
    .tp_doc = "See pybsp/transport/meeting.py.", .tp_basicsize = sizeof(Meeting),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_members = meeting_members,
    .tp_new = PyType_GenericNew, .tp_init = (initproc)meeting_init, .tp_dealloc = (destructor)meeting_dealloc,
    .tp_traverse = (traverseproc)meeting_traverse, .tp_clear = (inquiry)meeting_clear, .tp_methods = meeting_methods,
};

/* -- the module ---------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    METHOD("deal", deal), {"know", know, METH_VARARGS, NULL},
    METHOD("pack", pack), METHOD("unpack", unpack), {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._core", .m_doc = "See pybsp/core.c.", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void)
{
    name_tries = PyUnicode_InternFromString("tries");
    int ready = name_tries && !PyType_Ready(&meeting_type) && !PyType_Ready(&chunk_type);
    PyObject *core = ready ? PyModule_Create(&module) : NULL;
    return core && !PyModule_AddObjectRef(core, "Meeting", (PyObject *)&meeting_type) &&
           !PyModule_AddObjectRef(core, "Chunk", (PyObject *)&chunk_type) ? core : NULL;
}
