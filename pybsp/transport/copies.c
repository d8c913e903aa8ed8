/* A copy by streaming stores, for Python: see copying.py. Left out where the processor has none. */

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

static PyMethodDef functions[] = {{STREAMS ? "stream" : NULL, stream, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._copies", .m_doc = "See pybsp/transport/copies.c.", .m_methods = functions};

PyMODINIT_FUNC PyInit__copies(void) { return PyModuleDef_Init(&module); }
