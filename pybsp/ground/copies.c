/* Copies, some by streaming stores, for Python: see copying.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include "streaming.h"

/* stream(into, from): two contiguous buffers of one size. */
static PyObject *stream(PyObject *module, PyObject *args)
{
    Py_buffer into, from;
    if (!PyArg_ParseTuple(args, "w*y*:stream", &into, &from))
        return NULL;
    int alike = into.len == from.len;
    if (alike)
        stream_bytes(into.buf, from.buf, into.len);
    else
        PyErr_Format(PyExc_ValueError, "stream: expected buffers of one size, got %zd and %zd", into.len, from.len);
    PyBuffer_Release(&into);
    PyBuffer_Release(&from);
    return alike ? Py_NewRef(Py_None) : NULL;
}

/* lay(into, from): a contiguous buffer into another, as texts are laid out on boards; whether they are alike so. */
static PyObject *lay(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer into = {0}, from = {0};
    int alike = count == 2 && !PyObject_GetBuffer(args[0], &into, PyBUF_WRITABLE) &&
                !PyObject_GetBuffer(args[1], &from, PyBUF_SIMPLE) && into.len == from.len;
    if (alike)
        store(into.buf, from.buf, into.len);
    PyErr_Clear(); /* no buffer */
    PyBuffer_Release(&into);
    PyBuffer_Release(&from);
    return PyBool_FromLong(alike);
}

/* scatter(into, first, step, from, at, size): so many bytes from a place of a buffer into those items of an array, which
   are `step` apart from the first one on; whether it could. */
static PyObject *scatter(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer into = {0}, from = {0};
    Py_ssize_t numbers[6] = {0};
    int fits = count == 6;
    for (int i = 1; fits && i < 6; i++)
        fits = i == 3 || (numbers[i] = PyLong_AsSsize_t(args[i])) >= 0;
    Py_ssize_t first = numbers[1], step = numbers[2], at = numbers[4], size = numbers[5];
    fits = fits && !PyObject_GetBuffer(args[0], &into, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) &&
           !PyObject_GetBuffer(args[3], &from, PyBUF_SIMPLE) && into.itemsize && !(size % into.itemsize);
    Py_ssize_t items = fits ? size / into.itemsize : 0, all = fits ? into.len / into.itemsize : 0;
    /* Not by a product, which may be too large for a number. */
    fits = items && step && first < all && (items - 1) <= (all - 1 - first) / step && at <= from.len - size;
    if (fits) {
        char *there = (char *)into.buf + first * into.itemsize;
        const char *content = (const char *)from.buf + at;
        if (step == 1)
            plain_bytes(there, content, size);
        else if (into.itemsize == 8)
            for (Py_ssize_t i = 0; i < items; i++)
                memcpy(there + i * step * 8, content + i * 8, 8); /* no call */
        else
            for (Py_ssize_t i = 0; i < items; i++)
                memcpy(there + i * step * into.itemsize, content + i * into.itemsize, into.itemsize);
    }
    PyErr_Clear(); /* no number, or no buffer */
    PyBuffer_Release(&into);
    PyBuffer_Release(&from);
    return PyBool_FromLong(fits);
}

static PyMethodDef functions[] = {{STREAMS ? "stream" : NULL, stream, METH_VARARGS, NULL},
                                  {"lay", (PyCFunction)(void (*)(void))lay, METH_FASTCALL, NULL},
                                  {"scatter", (PyCFunction)(void (*)(void))scatter, METH_FASTCALL, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._copies", .m_doc = "See pybsp/ground/copies.c.", .m_methods = functions};

PyMODINIT_FUNC PyInit__copies(void) { return PyModuleDef_Init(&module); }
