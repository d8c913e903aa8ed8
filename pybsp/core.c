/* The innermost part of small exchanges, compiled: what processors do on a board in shared memory (transport/board.py),
   and packed mail (transport/wire.py), which is what small arrays and single numbers are sent as.

   Everything on a board has a twin in Python, which runs where this was not built, or where PYBSP_COMPILED=0: the
   methods of transport/meeting.py. They do the same to the same memory, so processors with and without this meet on one
   board. The rules of the protocol stand at the twin's lines. What does not happen in most exchanges is left to the
   twin: a method `_name` of the board. Mail is packed only here, and read by pybsp/mail.py too; what sends it without
   this, and all that is not packed, goes as records.

   Memory model: a status is stored with release and loaded with acquire, which is all that the twin's barrier is for. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

/* As transport/wire.py has them; `constants` says so to a test. */
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
#define AGES 62
#define AREA (1 << 17)
#define ALIGN 16

#define PACKED 1
#define PLAIN 2
#define NOTED 3
#define PACKED_MOST (1 << 16) /* bytes of all mail to a processor: */
#define PACKED_SMALL (1 << 10) /* what is larger goes as records then; */
#define PACKED_MANY (1 << 18) /* nothing is packed then */
#define PACKED_HEADER 24
#define PACKED_NUMBERS 16
#define ARRAY_KIND 7
#define NUMBERS_KIND 8
#define CHAR_SHIFT 8
#define NDIM_SHIFT 16
#define SIZE_SHIFT 32

#define DEALT 64 /* processors that `deal` deals to, at most */
#define LOOKS 1000 /* at a status, before Python waits on, which it is slow to come back from: some 15 microseconds */
#define GLANCES 100 /* while Python waits */
#define TURNS 100 /* of others on the core, likewise, where there are more ranks than cores */

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

#define LOAD(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#define STORE(at, word) __atomic_store_n((at), (word), __ATOMIC_RELEASE)

typedef struct {
    PyObject_HEAD
    long long number;    /* of the last exchange */
    PyObject *got;       /* list: data that came in the last few exchanges */
    PyObject *borrowing; /* dict: of others, read here */
    PyObject *dropped;   /* dict: of what processors here borrowed, that is read no longer */
    PyObject *settled;   /* bytes: this processor's borrows, if all of it is old, and how much it is; else None */
    PyObject *lending;   /* dict: of this processor's, that others may read */
    long long lent;      /* in this exchange, the last of it */
    PyObject *waiter;
    Py_ssize_t size, own;
    Py_buffer *views;  /* of the parts of all processors of the board */
    Py_ssize_t status; /* where it lies in a part, in bytes */
    Py_ssize_t borrows[2], slots[2], areas[2];
} Meeting;

/* What `know` was told: numpy's, and the classes of a received message and of a section, which are tuples. */
static PyObject *array_type, *from_buffer, *dtype_of, *message_type, *section_type;
static PyObject *dtypes[128]; /* by their character */
static PyObject *name_tries;

static inline int64_t *word_of(Meeting *self, Py_ssize_t k, Py_ssize_t at)
{
    return (int64_t *)((char *)self->views[k].buf + at);
}

static inline int64_t *status_of(Meeting *self, Py_ssize_t k)
{
    return word_of(self, k, self->status + 8 * (self->number & 1));
}

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
    return PyBytes_CheckExact(self->settled) && !PyDict_GET_SIZE(self->dropped) &&
           ((const int64_t *)PyBytes_AS_STRING(self->settled))[self->size] == PyDict_GET_SIZE(self->borrowing);
}

/* Post what is read of others; returns the flag that the status has then; -1: an error. */
static int64_t post_borrowed(Meeting *self, int parity)
{
    int same = settled(self), some = PyDict_GET_SIZE(self->borrowing) > 0;
    if (same && some)
        memcpy(word_of(self, self->own, self->borrows[parity]), PyBytes_AS_STRING(self->settled), 8 * self->size);
    if (same)
        return some ? BORROWS : 0;
    PyObject *flag = PyObject_CallMethod((PyObject *)self, "_post_borrowed", "i", parity);
    int64_t found = flag ? PyLong_AsLongLong(flag) : -1;
    Py_XDECREF(flag);
    return found;
}

/* Let go what was lent and none of the others reads, all of which are here; -1: an error. */
static int reclaim(Meeting *self)
{
    int64_t reading = 1; /* what this exchange sends is still to be read */
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (k != self->own && *status_of(self, k) & BORROWS)
            reading |= *(word_of(self, k, self->borrows[self->number & 1]) + self->own);
    if (self->number - self->lent >= AGES && reading >> AGES & 1)
        return 0; /* all of it is old, and old data is read */
    PyObject *done = PyObject_CallMethod((PyObject *)self, "_reclaim", "L", (long long)reading);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Whether there are more ranks than cores: then one look for each turn of the others is enough. -1: an error. */
static int crowded(Meeting *self)
{
    PyObject *tries = PyObject_GetAttr(self->waiter, name_tries);
    long found = tries ? PyLong_AsLong(tries) : -1;
    Py_XDECREF(tries);
    return found < 0 ? -1 : found == 1;
}

/* Whether all others have entered this exchange: looks so often, or as long as the turns last. -1: an error. */
static int all_here(Meeting *self, int looks, int turns)
{
    int64_t least = (int64_t)self->number << STATUS_EPOCH_SHIFT;
    int crowd = -1;
    for (Py_ssize_t k = 0; k < self->size; k++) {
        if (k == self->own)
            continue;
        int64_t *status = status_of(self, k);
        if (LOAD(status) >= least)
            continue;
        if (crowd < 0 && (crowd = crowded(self)) < 0)
            return -1;
        if (crowd) {
            Py_BEGIN_ALLOW_THREADS;
            while (turns && LOAD(status) < least) {
                turns--;
                sched_yield();
            }
            Py_END_ALLOW_THREADS;
        }
        else
            for (int look = 0; look < looks && LOAD(status) < least; look++)
                PAUSE();
        if (LOAD(status) < least)
            return 0;
    }
    return 1;
}

/* Enter the next exchange with that status. 1: all others have it too; 2: all are here; 0: not all; -1: an error. */
static int alike(Meeting *self, int64_t word)
{
    STORE(status_of(self, self->own), word);
    int here = all_here(self, LOOKS, TURNS);
    if (here <= 0)
        return here;
    for (Py_ssize_t k = 0; k < self->size; k++)
        if ((*status_of(self, k) ^ word) & ~(int64_t)BORROWS)
            return 2;
    return 1;
}

static PyObject *meet_as(Meeting *self, PyObject *kind, int64_t flags, const char *twin, const char *unlike)
{
    if (READS(self) && !settled(self))
        return PyObject_CallMethod((PyObject *)self, twin, "O", kind);
    int64_t word = PyLong_AsLongLong(kind);
    if (word == -1 && PyErr_Occurred())
        return NULL;
    self->number++;
    word |= (int64_t)self->number << STATUS_EPOCH_SHIFT | flags;
    word |= READS(self) ? post_borrowed(self, self->number & 1) : 0;
    int same = alike(self, word);
    if (same < 0)
        return NULL;
    if (same == 1)
        return PyDict_GET_SIZE(self->lending) && reclaim(self) ? NULL : Py_NewRef(Py_True);
    if (same && !flags)
        Py_RETURN_FALSE; /* all are here: the caller sees what they say */
    return PyObject_CallMethod((PyObject *)self, unlike, "L", (long long)word);
}

static PyObject *meet(Meeting *self, PyObject *kind) { return meet_as(self, kind, 0, "_meet", "_met"); }

static PyObject *show(Meeting *self, PyObject *kind) { return meet_as(self, kind, SHOWS, "_show", "_shown"); }

static PyObject *here(Meeting *self, PyObject *const *args, Py_ssize_t count)
{
    int found = all_here(self, GLANCES, 0);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

/* The bytes that manifests take in an area; -1 where the twin has to see to them, -2: an error. */
static Py_ssize_t room_for(PyObject *manifests)
{
    Py_ssize_t room = 0, count = PyList_GET_SIZE(manifests);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PyList_GET_ITEM(manifests, i);
        if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 2 || !PyBytes_Check(PyTuple_GET_ITEM(one, 1)))
            return -1;
        Py_ssize_t bytes = PyBytes_GET_SIZE(PyTuple_GET_ITEM(one, 1));
        if (bytes > AREA)
            return -1;
        room += (bytes + ALIGN - 1) & -ALIGN;
        if (room > AREA)
            return -1;
    }
    return room;
}

/* Say that there is something, which has been written, and what is read of others; -1: an error. */
static int enter_as(Meeting *self, int64_t word, int parity)
{
    int64_t flag = READS(self) ? post_borrowed(self, parity) : 0;
    if (flag < 0)
        return -1;
    STORE(status_of(self, self->own), word | (int64_t)self->number << STATUS_EPOCH_SHIFT | SOMETHING | flag);
    return 0;
}

static PyObject *enter(Meeting *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "enter: expected kind, manifests and data");
    PyObject *manifests = args[1], *data = args[2];
    /* Where other nodes have something from this processor, its slots are one more: the twin writes them. */
    if (!PyList_CheckExact(manifests) || !PyList_CheckExact(data) || room_for(manifests) < 0)
        return PyObject_CallMethod((PyObject *)self, "_enter", "OOO", args[0], manifests, data);
    int64_t word = PyLong_AsLongLong(args[0]);
    if (word == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t given = PyList_GET_SIZE(manifests);
    for (Py_ssize_t i = 0; i < given; i++) {
        Py_ssize_t k = PyLong_AsSsize_t(PyTuple_GET_ITEM(PyList_GET_ITEM(manifests, i), 0));
        if (k < 0 || k >= self->size)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "enter: no processor of the board");
    }
    self->number++;
    int parity = self->number & 1;
    char *part = self->views[self->own].buf;
    int64_t *slots = word_of(self, self->own, self->slots[parity]);
    int64_t tag = (int64_t)self->number << TAG_EPOCH_SHIFT;
    if (given < self->size - 1)
        for (Py_ssize_t k = 0; k < self->size; k++)
            if (k != self->own)
                slots[SLOT * k + TAG] = tag;
    Py_ssize_t at = self->areas[parity], place = at;
    PyObject *last = NULL;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *one = PyList_GET_ITEM(manifests, i), *text = PyTuple_GET_ITEM(one, 1);
        Py_ssize_t bytes = PyBytes_GET_SIZE(text);
        if (text != last) {
            memcpy(part + at, PyBytes_AS_STRING(text), bytes);
            place = at;
            at += (bytes + ALIGN - 1) & -ALIGN;
            last = text;
        }
        int64_t *slot = slots + SLOT * PyLong_AsSsize_t(PyTuple_GET_ITEM(one, 0));
        slot[0] = place;
        slot[TAG] = tag | HAS;
        slot[BYTES] = bytes;
    }
    if (PyList_GET_SIZE(data)) {
        PyObject *done = PyObject_CallMethod((PyObject *)self, "_lend", "O", data);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    return enter_as(self, word, parity) ? NULL : PyList_New(0);
}

/* A section of packed mail, or a plain one, copied out of memory that is used again: `wire.packed_section`. */
static PyObject *section_of(const char *mail, Py_ssize_t bytes)
{
    const int64_t *header = (const int64_t *)mail;
    PyObject *section = ((PyTypeObject *)section_type)->tp_alloc((PyTypeObject *)section_type, 4);
    if (!section)
        return NULL;
    PyTuple_SET_ITEM(section, 0, PyBytes_FromStringAndSize(mail, bytes));
    PyTuple_SET_ITEM(section, 1, PyLong_FromLongLong(header[1]));
    PyTuple_SET_ITEM(section, 2, PyLong_FromLongLong(header[2]));
    PyTuple_SET_ITEM(section, 3, Py_NewRef(Py_None));
    if (!PyTuple_GET_ITEM(section, 0) || !PyTuple_GET_ITEM(section, 1) || !PyTuple_GET_ITEM(section, 2))
        Py_CLEAR(section);
    return section;
}

static PyObject *gather(Meeting *self, PyObject *kind)
{
    int64_t doing = PyLong_AsLongLong(kind);
    if (doing == -1 && PyErr_Occurred())
        return NULL;
    int found = all_here(self, LOOKS, TURNS);
    if (found < 0)
        return NULL;
    if (!found) {
        PyObject *done = PyObject_CallMethod((PyObject *)self, "wait", NULL);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    int parity = self->number & 1, all_read = 1;
    PyObject *texts = PyList_New(0);
    if (!texts)
        return NULL;
    for (Py_ssize_t k = 0; k < self->size; k++) {
        if (k == self->own)
            continue;
        int64_t word = LOAD(status_of(self, k));
        if ((word & KIND_AND_FLAGS) != doing)
            goto twin;
        if (word & SOMETHING) {
            int64_t *slot = word_of(self, k, self->slots[parity]) + SLOT * self->own;
            if (slot[TAG] >> TAG_EPOCH_SHIFT != self->number) {
                PyObject *error =
                    PyObject_CallMethod((PyObject *)self, "_undelivered", "nL", k, slot[TAG] >> TAG_EPOCH_SHIFT);
                if (error)
                    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
                Py_XDECREF(error);
                goto failed;
            }
            if (slot[TAG] & HAS) {
                Py_ssize_t at = slot[0], bytes = slot[BYTES];
                if (at < 0)
                    goto twin;
                if (at + bytes > self->views[k].len) {
                    PyErr_Format(PyExc_RuntimeError, "a manifest of processor %zd of a board lies outside of its part", k);
                    goto failed;
                }
                char *text = (char *)self->views[k].buf + at;
                int read = bytes && *text >= PACKED && *text <= NOTED; /* no pickle begins so */
                all_read &= read;
                PyObject *one = Py_BuildValue("(nN)", k, read ? section_of(text, bytes)
                                                              : PyMemoryView_FromMemory(text, bytes, PyBUF_READ));
                if (!one || PyList_Append(texts, one)) {
                    Py_XDECREF(one);
                    goto failed;
                }
                Py_DECREF(one);
            }
        }
    }
    if (PyDict_GET_SIZE(self->lending) && reclaim(self))
        goto failed;
    if (!all_read)
        return texts;
    PyObject *sections = PyList_AsTuple(texts);
    Py_DECREF(texts);
    return sections;
twin:
    Py_DECREF(texts);
    Py_RETURN_NONE;
failed:
    Py_DECREF(texts);
    return NULL;
}

/* -- packed mail --------------------------------------------------------------------------------------------------- */

static PyObject *know(PyObject *module, PyObject *args)
{
    if (!PyArg_ParseTuple(args, "OOOO!O!:know", &array_type, &from_buffer, &dtype_of, &PyType_Type, &message_type,
                          &PyType_Type, &section_type))
        return NULL;
    Py_INCREF(args); /* has them for good */
    Py_RETURN_NONE;
}

static inline int64_t *header_of(PyObject *mail) { return (int64_t *)PyByteArray_AS_STRING(mail); }

/* The mail for a processor, with room for so many bytes more; NULL without an error: it goes as records. */
static PyObject *mail_for(PyObject *outgoing, PyObject *dest, Py_ssize_t bytes)
{
    PyObject *mail = PyDict_GetItemWithError(outgoing, dest); /* borrowed */
    if (!mail) {
        if (PyErr_Occurred() || PACKED_HEADER + bytes > PACKED_MOST ||
            !(mail = PyByteArray_FromStringAndSize(NULL, PACKED_HEADER + bytes)))
            return NULL;
        memset(header_of(mail), 0, PACKED_HEADER);
        header_of(mail)[0] = PACKED;
        int failed = PyDict_SetItem(outgoing, dest, mail);
        Py_DECREF(mail);
        return failed ? NULL : mail;
    }
    Py_ssize_t used = PyByteArray_CheckExact(mail) ? PyByteArray_GET_SIZE(mail) : PACKED_MANY;
    Py_ssize_t most = bytes > PACKED_SMALL ? PACKED_MOST : PACKED_MANY;
    return used + bytes > most || PyByteArray_Resize(mail, used + bytes) ? NULL : mail;
}

/* Add a number: to the last record, if that has numbers of this type. 1, 0 (it goes as records), or -1: an error. */
static int pack_number(PyObject *outgoing, PyObject *dest, char type, int64_t bits)
{
    PyObject *mail = PyDict_GetItemWithError(outgoing, dest);
    int64_t kind = NUMBERS_KIND | type << CHAR_SHIFT, last = 0;
    if (mail && PyByteArray_CheckExact(mail)) {
        last = header_of(mail)[0] >> CHAR_SHIFT;
        int64_t record = *(int64_t *)(PyByteArray_AS_STRING(mail) + last);
        if ((record & ((1 << NDIM_SHIFT) - 1)) != kind)
            last = 0;
        else if (record >> SIZE_SHIFT == PACKED_NUMBERS)
            return 0;
    }
    if (!(mail = mail_for(outgoing, dest, last ? 8 : 16)))
        return PyErr_Occurred() ? -1 : 0;
    char *end = PyByteArray_AS_STRING(mail) + PyByteArray_GET_SIZE(mail);
    *(int64_t *)(end - 8) = bits;
    if (!last) {
        last = PyByteArray_GET_SIZE(mail) - 16;
        *(int64_t *)(end - 16) = kind;
        header_of(mail)[0] = PACKED | last << CHAR_SHIFT;
    }
    *(int64_t *)(PyByteArray_AS_STRING(mail) + last) += (int64_t)1 << SIZE_SHIFT;
    header_of(mail)[1]++;
    header_of(mail)[2]++;
    return 1;
}

/* Add an array, likewise. */
static int pack_array(PyObject *outgoing, PyObject *dest, PyObject *array)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_FORMAT)) {
        PyErr_Clear(); /* a dtype that is no buffer */
        return 0;
    }
    int packed = 0;
    const char *format = view.format;
    Py_ssize_t before = 8 + 8 * view.ndim, padded = (view.len + 7) & -8;
    if (format[0] && !format[1] && strchr("?bBhHiIlLqQefd", format[0]) && view.len <= PACKED_MOST &&
        PyBuffer_IsContiguous(&view, 'C')) {
        PyObject *mail = mail_for(outgoing, dest, before + padded);
        if (mail) {
            int64_t last = PyByteArray_GET_SIZE(mail) - before - padded;
            int64_t *record = (int64_t *)(PyByteArray_AS_STRING(mail) + last);
            record[0] = ARRAY_KIND | format[0] << CHAR_SHIFT | view.ndim << NDIM_SHIFT | (int64_t)view.len << SIZE_SHIFT;
            for (int axis = 0; axis < view.ndim; axis++)
                record[1 + axis] = view.shape[axis];
            if (padded)
                record[before / 8 + padded / 8 - 1] = 0;
            memcpy((char *)record + before, view.buf, view.len);
            int64_t *header = header_of(mail);
            header[0] = PACKED | last << CHAR_SHIFT;
            header[1] += padded / 8;
            header[2]++;
            packed = 1;
        }
        else if (PyErr_Occurred())
            packed = -1;
    }
    PyBuffer_Release(&view);
    return packed;
}

/* pack(outgoing, dest, payload): whether the payload, which has no tag, was added to packed mail for that processor. */
static PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyDict_CheckExact(args[0]))
        return PyErr_Format(PyExc_TypeError, "pack: expected a dict, a processor and a payload");
    PyObject *payload = args[2];
    int packed = 0;
    if ((PyObject *)Py_TYPE(payload) == array_type)
        packed = pack_array(args[0], args[1], payload);
    else if (PyFloat_CheckExact(payload)) {
        double number = PyFloat_AS_DOUBLE(payload);
        int64_t bits;
        memcpy(&bits, &number, 8);
        packed = pack_number(args[0], args[1], 'd', bits);
    }
    else if (PyLong_CheckExact(payload)) {
        int over;
        long long number = PyLong_AsLongLongAndOverflow(payload, &over);
        if (!over)
            packed = pack_number(args[0], args[1], 'q', number);
    }
    return packed < 0 ? NULL : PyBool_FromLong(packed);
}

/* One message more; takes the reference to the payload. */
static int add_message(PyObject *messages, PyObject *source, PyObject *payload)
{
    PyTypeObject *type = (PyTypeObject *)message_type;
    PyObject *message = payload ? type->tp_alloc(type, 3) : NULL;
    if (!message) {
        Py_XDECREF(payload);
        return -1;
    }
    PyTuple_SET_ITEM(message, 0, Py_NewRef(source));
    PyTuple_SET_ITEM(message, 1, Py_NewRef(Py_None));
    PyTuple_SET_ITEM(message, 2, payload);
    int failed = PyList_Append(messages, message);
    Py_DECREF(message);
    return failed;
}

/* The array of a record, which is read there, in the bytes of the mail. */
static PyObject *array_of(PyObject *mail, const int64_t *record)
{
    int type = record[0] >> CHAR_SHIFT & 127, ndim = record[0] >> NDIM_SHIFT & 255;
    Py_ssize_t size = 1;
    for (int axis = 0; axis < ndim; axis++)
        size *= record[1 + axis];
    if (!dtypes[type] && !(dtypes[type] = PyObject_CallFunction(dtype_of, "C", type)))
        return NULL;
    Py_ssize_t at = (const char *)(record + 1 + ndim) - PyBytes_AS_STRING(mail);
    PyObject *array = size ? PyObject_CallFunction(from_buffer, "OOnn", mail, dtypes[type], size, at)
                           : PyObject_CallFunction(from_buffer, "yO", "", dtypes[type]); /* no buffer has nothing */
    if (!array || ndim == 1)
        return array;
    PyObject *shape = PyTuple_New(ndim);
    for (int axis = 0; shape && axis < ndim; axis++)
        PyTuple_SET_ITEM(shape, axis, PyLong_FromLongLong(record[1 + axis]));
    PyObject *shaped = shape ? PyObject_CallMethod(array, "reshape", "(N)", shape) : NULL;
    Py_DECREF(array);
    return shaped;
}

/* unpack(source, mail, messages): add the messages of packed mail, which come from there. */
static PyObject *unpack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "unpack: expected a source, bytes and a list");
    const char *text = PyBytes_AS_STRING(args[1]);
    Py_ssize_t end = PyBytes_GET_SIZE(args[1]);
    for (Py_ssize_t at = PACKED_HEADER; at < end;) {
        const int64_t *record = (const int64_t *)(text + at);
        int64_t size = record[0] >> SIZE_SHIFT;
        if ((record[0] & 255) == ARRAY_KIND) {
            if (add_message(args[2], args[0], array_of(args[1], record)))
                return NULL;
            at += 8 + 8 * (record[0] >> NDIM_SHIFT & 255) + ((size + 7) & -8);
            continue;
        }
        int type = record[0] >> CHAR_SHIFT & 127;
        for (int64_t k = 1; k <= size; k++) {
            double number;
            memcpy(&number, record + k, 8);
            if (add_message(args[2], args[0], type == 'd' ? PyFloat_FromDouble(number) : PyLong_FromLongLong(record[k])))
                return NULL;
        }
        at += 8 + 8 * size;
    }
    Py_RETURN_NONE;
}

/* post(kind, outgoing): enter the next exchange with packed mail alone, all of it for others; outgoing is empty then.
   Returns words and messages; None where something else is sent, or there is no room: then nothing was done. */
static PyObject *post(Meeting *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyDict_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "post: expected a kind and a dict");
    int64_t word = PyLong_AsLongLong(args[0]);
    if (word == -1 && PyErr_Occurred())
        return NULL;
    PyObject *dest, *mail;
    Py_ssize_t room = 0, next = 0;
    while (PyDict_Next(args[1], &next, &dest, &mail)) {
        if (!PyByteArray_CheckExact(mail) || (room += (PyByteArray_GET_SIZE(mail) + ALIGN - 1) & -ALIGN) > AREA)
            Py_RETURN_NONE;
        Py_ssize_t k = PyLong_AsSsize_t(dest);
        if (k == self->own)
            Py_RETURN_NONE;
        if (k < 0 || k >= self->size)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "post: no processor of the board");
    }
    self->number++;
    int parity = self->number & 1;
    int64_t tag = (int64_t)self->number << TAG_EPOCH_SHIFT, words = 0, messages = 0;
    int64_t *slots = word_of(self, self->own, self->slots[parity]);
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (k != self->own)
            slots[SLOT * k + TAG] = tag;
    char *part = self->views[self->own].buf;
    Py_ssize_t at = self->areas[parity];
    next = 0;
    while (PyDict_Next(args[1], &next, &dest, &mail)) {
        Py_ssize_t bytes = PyByteArray_GET_SIZE(mail);
        memcpy(part + at, PyByteArray_AS_STRING(mail), bytes);
        words += header_of(mail)[1];
        messages += header_of(mail)[2];
        int64_t *slot = slots + SLOT * PyLong_AsSsize_t(dest);
        slot[0] = at;
        slot[TAG] = tag | HAS;
        slot[BYTES] = bytes;
        at += (bytes + ALIGN - 1) & -ALIGN;
    }
    if (enter_as(self, word, parity))
        return NULL;
    PyDict_Clear(args[1]);
    return Py_BuildValue("(LL)", (long long)words, (long long)messages);
}

/* deal(texts, dests, items, head, words, p): add items, of so many words each, to the plain sections for their
   destinations, which begin with that head: `wire.plain_text`. Returns whether it could; nothing was done if not. */
static PyObject *deal(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6 || !PyDict_CheckExact(args[0]))
        return PyErr_Format(PyExc_TypeError, "deal: expected a dict, destinations, items, a head, words and processors");
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
        PyObject *key = PyLong_FromSsize_t(k), *text = key ? PyDict_GetItemWithError(args[0], key) : NULL; /* borrowed */
        if (counts[k] && !text && (text = PyByteArray_FromObject(args[3])) && !PyDict_SetItem(args[0], key, text))
            Py_DECREF(text);
        Py_XDECREF(key);
        Py_ssize_t used = text ? PyByteArray_GET_SIZE(text) : 0;
        if (counts[k] && (!text || PyByteArray_Resize(text, used + counts[k] * size)))
            fits = -1;
        else if (counts[k]) {
            header_of(text)[1] += counts[k] * words;
            header_of(text)[4] += counts[k];
            ends[k] = PyByteArray_AS_STRING(text) + used;
        }
    }
    for (Py_ssize_t i = 0; fits > 0 && i < n; ends[dest[i++]] += size)
        memcpy(ends[dest[i]], (char *)items.buf + i * size, size);
    PyBuffer_Release(&dests);
    PyBuffer_Release(&items);
    return fits < 0 ? NULL : PyBool_FromLong(fits);
}

/* -- the type ------------------------------------------------------------------------------------------------------ */

static void let_views_go(Meeting *self)
{
    if (self->views)
        for (Py_ssize_t k = 0; k < self->size; k++)
            if (self->views[k].obj)
                PyBuffer_Release(&self->views[k]);
    PyMem_Free(self->views);
    self->views = NULL;
}

static int meeting_init(Meeting *self, PyObject *args, PyObject *keywords)
{
    PyObject *parts, *waiter, *got, *lending, *borrowing, *dropped;
    Py_ssize_t own;
    long long number;
    if (!PyArg_ParseTuple(args, "O!nLOO!O!O!O!n(nn)(nn)(nn):Meeting", &PyList_Type, &parts, &own, &number, &waiter,
                          &PyList_Type, &got, &PyDict_Type, &lending, &PyDict_Type, &borrowing, &PyDict_Type, &dropped,
                          &self->status, &self->borrows[0], &self->borrows[1], &self->slots[0], &self->slots[1],
                          &self->areas[0], &self->areas[1]))
        return -1;
    let_views_go(self);
    self->size = PyList_GET_SIZE(parts);
    self->own = own;
    self->number = number;
    if (own < 0 || own >= self->size) {
        PyErr_SetString(PyExc_IndexError, "Meeting: this processor is not among the parts");
        return -1;
    }
    if (!(self->views = PyMem_Calloc(self->size, sizeof(Py_buffer)))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < self->size; k++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(parts, k), &self->views[k], k == own ? PyBUF_WRITABLE : PyBUF_SIMPLE))
            return -1;
        if (self->views[k].len < self->areas[0] + AREA || self->views[k].len < self->areas[1] + AREA) {
            PyErr_SetString(PyExc_ValueError, "Meeting: a part is smaller than its board");
            return -1;
        }
    }
    Py_XSETREF(self->waiter, Py_NewRef(waiter));
    Py_XSETREF(self->got, Py_NewRef(got));
    Py_XSETREF(self->lending, Py_NewRef(lending));
    Py_XSETREF(self->borrowing, Py_NewRef(borrowing));
    Py_XSETREF(self->dropped, Py_NewRef(dropped));
    Py_XSETREF(self->settled, Py_NewRef(Py_None));
    return 0;
}

static int meeting_traverse(Meeting *self, visitproc visit, void *arg)
{
    Py_VISIT(self->waiter);
    Py_VISIT(self->got);
    Py_VISIT(self->lending);
    Py_VISIT(self->borrowing);
    Py_VISIT(self->dropped);
    return 0;
}

static int meeting_clear(Meeting *self)
{
    Py_CLEAR(self->waiter);
    Py_CLEAR(self->got);
    Py_CLEAR(self->lending);
    Py_CLEAR(self->borrowing);
    Py_CLEAR(self->dropped);
    Py_CLEAR(self->settled);
    return 0;
}

static void meeting_dealloc(Meeting *self)
{
    PyObject_GC_UnTrack(self);
    let_views_go(self);
    meeting_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef meeting_members[] = {
    {"number", T_LONGLONG, offsetof(Meeting, number), 0, NULL},
    {"_settled", T_OBJECT_EX, offsetof(Meeting, settled), 0, NULL},
    {"_lent_last", T_LONGLONG, offsetof(Meeting, lent), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef meeting_methods[] = {
    {"meet", (PyCFunction)meet, METH_O, NULL},
    {"show", (PyCFunction)show, METH_O, NULL},
    {"enter", (PyCFunction)(void (*)(void))enter, METH_FASTCALL, NULL},
    {"gather", (PyCFunction)gather, METH_O, NULL},
    {"post", (PyCFunction)(void (*)(void))post, METH_FASTCALL, NULL},
    {"here", (PyCFunction)(void (*)(void))here, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject meeting_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pybsp._core.Meeting",
    .tp_doc = "See pybsp/transport/meeting.py.",
    .tp_basicsize = sizeof(Meeting),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)meeting_init,
    .tp_dealloc = (destructor)meeting_dealloc,
    .tp_traverse = (traverseproc)meeting_traverse,
    .tp_clear = (inquiry)meeting_clear,
    .tp_methods = meeting_methods,
    .tp_members = meeting_members,
};

/* -- the module ---------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"deal", (PyCFunction)(void (*)(void))deal, METH_FASTCALL, NULL},
    {"know", know, METH_VARARGS, NULL},
    {"pack", (PyCFunction)(void (*)(void))pack, METH_FASTCALL, NULL},
    {"unpack", (PyCFunction)(void (*)(void))unpack, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._core", .m_doc = "See pybsp/core.c.", .m_size = -1, .m_methods = functions};

#define CONSTANT(name) {#name, name}
static const struct { const char *name; long value; } constants[] = {
    CONSTANT(STATUS_EPOCH_SHIFT), CONSTANT(TAG_EPOCH_SHIFT), CONSTANT(SOMETHING), CONSTANT(BORROWS), CONSTANT(SHOWS),
    CONSTANT(KIND_AND_FLAGS), CONSTANT(SLOT), CONSTANT(TAG), CONSTANT(BYTES), CONSTANT(HAS), CONSTANT(AGES),
    CONSTANT(AREA), CONSTANT(ALIGN), CONSTANT(PACKED), CONSTANT(PLAIN), CONSTANT(NOTED), CONSTANT(PACKED_HEADER),
    CONSTANT(ARRAY_KIND), CONSTANT(NUMBERS_KIND), CONSTANT(CHAR_SHIFT), CONSTANT(NDIM_SHIFT), CONSTANT(SIZE_SHIFT),
};

PyMODINIT_FUNC PyInit__core(void)
{
    if (!(name_tries = PyUnicode_InternFromString("tries")) || PyType_Ready(&meeting_type) < 0)
        return NULL;
    PyObject *core = PyModule_Create(&module);
    if (!core || PyModule_AddObjectRef(core, "Meeting", (PyObject *)&meeting_type) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(core, constants[i].name, constants[i].value) < 0)
            return NULL;
    return core;
}
