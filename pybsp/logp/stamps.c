/* Rows of times that a LogP processor notes of its messages, compiled; the twin in Python is `PlainStamps` in
   recording.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include "../ground/clock.h"

enum { WIDTH = 4 };

typedef struct {
    PyObject_HEAD
    int64_t *rows, begun;
    Py_ssize_t count, room, limit; /* count: of all rows, of which as many are kept as the limit allows */
} Stamps;

static PyObject *begin(Stamps *self, PyObject *none)
{
    (void)none;
    self->begun = nanoseconds();
    Py_RETURN_NONE;
}

static PyObject *end(Stamps *self, PyObject *const *values, Py_ssize_t count)
{
    int64_t of[2] = {0, 0}, ended = nanoseconds();
    for (Py_ssize_t k = 0; k < count && k < 2; k++)
        if ((of[k] = PyLong_AsLongLong(values[k])) == -1 && PyErr_Occurred())
            return NULL;
    if (self->count < self->limit) {
        if (self->count == self->room) {
            Py_ssize_t room = self->room ? 2 * self->room : 256;
            int64_t *rows = PyMem_Realloc(self->rows, (size_t)room * WIDTH * sizeof(int64_t));
            if (!rows)
                return PyErr_NoMemory();
            self->rows = rows, self->room = room;
        }
        int64_t *row = self->rows + WIDTH * self->count;
        row[0] = self->begun, row[1] = ended, row[2] = of[0], row[3] = of[1];
    }
    self->count++;
    Py_RETURN_NONE;
}

static PyObject *rows(Stamps *self, PyObject *none)
{
    (void)none;
    Py_ssize_t kept = self->count < self->limit ? self->count : self->limit;
    return PyBytes_FromStringAndSize((const char *)self->rows, kept * WIDTH * (Py_ssize_t)sizeof(int64_t));
}

static int initialise(Stamps *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"limit", NULL};
    return PyArg_ParseTupleAndKeywords(args, kwargs, "n", names, &self->limit) ? 0 : -1;
}

static void deallocate(Stamps *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->rows);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"begin", (PyCFunction)begin, METH_NOARGS, "The next row begins now."},
    {"end", (PyCFunction)(void (*)(void))end, METH_FASTCALL, "It ends now, with up to two numbers."},
    {"rows", (PyCFunction)rows, METH_NOARGS, "Those that are kept: begin, end and numbers of each, 64 bits."},
    {NULL, NULL, 0, NULL}};

static PyMemberDef members[] = {{"count", T_PYSSIZET, offsetof(Stamps, count), READONLY, "Of all rows."},
                                {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_init, initialise}, {Py_tp_dealloc, deallocate}, {Py_tp_methods, methods},
                              {Py_tp_members, members}, {0, NULL}};

static PyType_Spec specification = {
    .name = "pybsp._stamps.Stamps", .basicsize = sizeof(Stamps), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_stamps", .m_size = 0};

PyMODINIT_FUNC PyInit__stamps(void)
{
    PyObject *module = PyModule_Create(&definition), *type = PyType_FromSpec(&specification);
    if (!module || !type || PyModule_AddObject(module, "Stamps", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
