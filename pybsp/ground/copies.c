/* Copies by streaming stores, for Python: see copying.py. */

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

static PyMethodDef functions[] = {{STREAMS ? "stream" : NULL, stream, METH_VARARGS, NULL},
                                  {"lay", (PyCFunction)(void (*)(void))lay, METH_FASTCALL, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._copies", .m_doc = "See pybsp/ground/copies.c.", .m_methods = functions};

PyMODINIT_FUNC PyInit__copies(void) { return PyModuleDef_Init(&module); }
