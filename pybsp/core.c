/* The innermost part of small exchanges, compiled: what processors do on a board in shared memory (transport/board.py).

   Everything here has a twin in Python, which runs where this was not built, or where PYBSP_COMPILED=0: the methods of
   transport/meeting.py. They do the same to the same memory, so processors with and without this meet on one board. The
   rules of the protocol stand at the twin's lines. What does not happen in most exchanges is left to the twin: a method
   `_name` of the board.

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
#define AREA (1 << 15)
#define ALIGN 16

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
    PyObject *lending;   /* dict: of this processor's, that others may read */
    PyObject *waiter;
    Py_ssize_t size, own;
    Py_buffer *views;  /* of the parts of all processors of the board */
    Py_ssize_t status; /* where it lies in a part, in bytes */
    Py_ssize_t borrows[2], slots[2], areas[2];
} Meeting;

static PyObject *name_tries, *name_meet, *name_met, *name_show, *name_shown, *name_enter, *name_wait,
    *name_lend;

static inline int64_t *word_of(Meeting *self, Py_ssize_t k, Py_ssize_t at)
{
    return (int64_t *)((char *)self->views[k].buf + at);
}

static inline int64_t *status_of(Meeting *self, Py_ssize_t k)
{
    return word_of(self, k, self->status + 8 * (self->number & 1));
}

/* Whether this processor reads data of others, which the status says. */
static inline int reads(Meeting *self)
{
    return PyList_GET_SIZE(self->got) || PyDict_GET_SIZE(self->borrowing);
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

/* Enter the next exchange with that status, and look whether all others have the same one: 1 or 0; -1: an error. */
static int alike(Meeting *self, int64_t word)
{
    STORE(status_of(self, self->own), word);
    int here = all_here(self, LOOKS, TURNS);
    if (here <= 0)
        return here;
    for (Py_ssize_t k = 0; k < self->size; k++)
        if (*status_of(self, k) != word)
            return 0;
    return 1;
}

static PyObject *meet_as(Meeting *self, PyObject *kind, int64_t flags, PyObject *twin, PyObject *unlike)
{
    if (reads(self))
        return PyObject_CallMethodOneArg((PyObject *)self, twin, kind);
    int64_t word = PyLong_AsLongLong(kind);
    if (word == -1 && PyErr_Occurred())
        return NULL;
    self->number++;
    word |= (int64_t)self->number << STATUS_EPOCH_SHIFT | flags;
    int same = alike(self, word);
    if (same < 0)
        return NULL;
    if (same && !PyDict_GET_SIZE(self->lending))
        Py_RETURN_TRUE;
    PyObject *number = PyLong_FromLongLong(word), *found = NULL;
    if (number)
        found = PyObject_CallMethodOneArg((PyObject *)self, unlike, number);
    Py_XDECREF(number);
    return found;
}

static PyObject *meet(Meeting *self, PyObject *kind) { return meet_as(self, kind, 0, name_meet, name_met); }

static PyObject *show(Meeting *self, PyObject *kind) { return meet_as(self, kind, SHOWS, name_show, name_shown); }

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

static PyObject *enter(Meeting *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "enter: expected kind, manifests and data");
        return NULL;
    }
    PyObject *manifests = args[1], *data = args[2];
    /* Where other nodes have something from this processor, its slots are one more: the twin writes them. */
    if (!PyList_CheckExact(manifests) || !PyList_CheckExact(data) || room_for(manifests) < 0)
        return PyObject_CallMethodObjArgs((PyObject *)self, name_enter, args[0], manifests, data, NULL);
    int64_t word = PyLong_AsLongLong(args[0]);
    if (word == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t given = PyList_GET_SIZE(manifests);
    for (Py_ssize_t i = 0; i < given; i++) {
        Py_ssize_t k = PyLong_AsSsize_t(PyTuple_GET_ITEM(PyList_GET_ITEM(manifests, i), 0));
        if (k < 0 || k >= self->size) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_IndexError, "enter: a manifest for a processor that is not on the board");
            return NULL;
        }
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
        PyObject *done = PyObject_CallMethodOneArg((PyObject *)self, name_lend, data);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    word |= (int64_t)self->number << STATUS_EPOCH_SHIFT | SOMETHING;
    if (reads(self)) {
        PyObject *flag = PyObject_CallMethod((PyObject *)self, "_post_borrowed", "i", parity);
        if (!flag)
            return NULL;
        word |= PyLong_AsLongLong(flag);
        Py_DECREF(flag);
    }
    STORE(status_of(self, self->own), word);
    return PyList_New(0);
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
        PyObject *done = PyObject_CallMethodNoArgs((PyObject *)self, name_wait);
        if (!done)
            return NULL;
        Py_DECREF(done);
    }
    int parity = self->number & 1;
    int64_t reading = 1;
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
                Py_DECREF(texts);
                return NULL;
            }
            if (slot[TAG] & HAS) {
                Py_ssize_t at = slot[0], bytes = slot[BYTES];
                if (at < 0)
                    goto twin;
                if (at + bytes > self->views[k].len) {
                    PyErr_Format(PyExc_RuntimeError, "a manifest of processor %zd of a board lies outside of its part", k);
                    Py_DECREF(texts);
                    return NULL;
                }
                PyObject *view = PyMemoryView_FromMemory((char *)self->views[k].buf + at, bytes, PyBUF_READ);
                PyObject *one = view ? Py_BuildValue("(nN)", k, view) : NULL;
                if (!one || PyList_Append(texts, one)) {
                    Py_XDECREF(one);
                    Py_DECREF(texts);
                    return NULL;
                }
                Py_DECREF(one);
            }
        }
        if (word & BORROWS)
            reading |= *(word_of(self, k, self->borrows[parity]) + self->own);
    }
    if (PyDict_GET_SIZE(self->lending)) {
        PyObject *done = PyObject_CallMethod((PyObject *)self, "_reclaim", "L", (long long)reading);
        if (!done) {
            Py_DECREF(texts);
            return NULL;
        }
        Py_DECREF(done);
    }
    return texts;
twin:
    Py_DECREF(texts);
    Py_RETURN_NONE;
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
    PyObject *parts, *waiter, *got, *lending, *borrowing;
    Py_ssize_t own;
    long long number;
    if (!PyArg_ParseTuple(args, "O!nLOO!O!O!n(nn)(nn)(nn):Meeting", &PyList_Type, &parts, &own, &number, &waiter,
                          &PyList_Type, &got, &PyDict_Type, &lending, &PyDict_Type, &borrowing, &self->status,
                          &self->borrows[0], &self->borrows[1], &self->slots[0], &self->slots[1], &self->areas[0],
                          &self->areas[1]))
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
    return 0;
}

static int meeting_traverse(Meeting *self, visitproc visit, void *arg)
{
    Py_VISIT(self->waiter);
    Py_VISIT(self->got);
    Py_VISIT(self->lending);
    Py_VISIT(self->borrowing);
    return 0;
}

static int meeting_clear(Meeting *self)
{
    Py_CLEAR(self->waiter);
    Py_CLEAR(self->got);
    Py_CLEAR(self->lending);
    Py_CLEAR(self->borrowing);
    return 0;
}

static void meeting_dealloc(Meeting *self)
{
    PyObject_GC_UnTrack(self);
    let_views_go(self);
    meeting_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int set_got(Meeting *self, PyObject *value, void *closure)
{
    if (!value || !PyList_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "_got: expected a list");
        return -1;
    }
    Py_XSETREF(self->got, Py_NewRef(value));
    return 0;
}

static PyObject *get_got(Meeting *self, void *closure) { return Py_NewRef(self->got); }

static PyGetSetDef meeting_properties[] = {
    {"_got", (getter)get_got, (setter)set_got, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef meeting_members[] = {
    {"number", T_LONGLONG, offsetof(Meeting, number), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef meeting_methods[] = {
    {"meet", (PyCFunction)meet, METH_O, NULL},
    {"show", (PyCFunction)show, METH_O, NULL},
    {"enter", (PyCFunction)(void (*)(void))enter, METH_FASTCALL, NULL},
    {"gather", (PyCFunction)gather, METH_O, NULL},
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
    .tp_getset = meeting_properties,
};

/* -- the module ---------------------------------------------------------------------------------------------------- */

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "pybsp._core", .m_doc = "See pybsp/core.c.",
                                    .m_size = -1};

static const struct {
    PyObject **name;
    const char *text;
} names[] = {
    {&name_tries, "tries"},      {&name_meet, "_meet"},       {&name_met, "_met"},
    {&name_show, "_show"},       {&name_shown, "_shown"},     {&name_enter, "_enter"},
    {&name_wait, "wait"},        {&name_lend, "_lend"},
};

static const struct {
    const char *name;
    long value;
} constants[] = {
    {"STATUS_EPOCH_SHIFT", STATUS_EPOCH_SHIFT},
    {"TAG_EPOCH_SHIFT", TAG_EPOCH_SHIFT},
    {"SOMETHING", SOMETHING},
    {"BORROWS", BORROWS},
    {"SHOWS", SHOWS},
    {"KIND_AND_FLAGS", KIND_AND_FLAGS},
    {"SLOT", SLOT},
    {"TAG", TAG},
    {"BYTES", BYTES},
    {"HAS", HAS},
    {"AREA", AREA},
    {"ALIGN", ALIGN},
};

PyMODINIT_FUNC PyInit__core(void)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].name = PyUnicode_InternFromString(names[i].text)))
            return NULL;
    if (PyType_Ready(&meeting_type) < 0)
        return NULL;
    PyObject *core = PyModule_Create(&module);
    if (!core || PyModule_AddObjectRef(core, "Meeting", (PyObject *)&meeting_type) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(core, constants[i].name, constants[i].value) < 0)
            return NULL;
    return core;
}
