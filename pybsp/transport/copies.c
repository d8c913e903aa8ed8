/* Copies by streaming stores, which go past the caches: see copying.py. Left out where the processor has none. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE 64 /* bytes, which must be written whole: else the rest of a line has to be read */

static void stream_bytes(char *into, const char *from, Py_ssize_t size)
{
    Py_ssize_t at = -(intptr_t)into & (LINE - 1);
    memcpy(into, from, at = at < size ? at : size);
    for (; at + LINE <= size; at += LINE)
        for (int i = 0; i < LINE; i += 16)
            _mm_stream_si128((__m128i *)(into + at + i), _mm_loadu_si128((const __m128i *)(from + at + i)));
    _mm_sfence(); /* before any word that says that they are there */
    memcpy(into + at, from + at, size - at);
}

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

static PyMethodDef functions[] = {{"stream", stream, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
#else
static PyMethodDef functions[] = {{NULL, NULL, 0, NULL}};
#endif

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "pybsp._copies", .m_doc = "See pybsp/transport/copies.c.", .m_methods = functions};

PyMODINIT_FUNC PyInit__copies(void) { return PyModuleDef_Init(&module); }
