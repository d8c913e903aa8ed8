/* Copies by streaming stores, which go past the caches: why, and when, is in copying.py. */

#include "clock.h"

#define NEAR 64         /* bytes by which one place in a page lies ahead of another */
#define SHORT_COPY 2048 /* bytes, which no C library copies by `rep movsb` */

/* memcpy, in short pieces where one would be slow: some processors (AMD's Zen 3) copy by `rep movsb`, as C libraries do
   from 2 to 512 KiB, at a tenth of the speed where the copy begins a little further in its page than what it is of. */
static inline void plain_bytes(char *into, const char *from, Py_ssize_t size)
{
    if (size > SHORT_COPY && (((uintptr_t)into - (uintptr_t)from - 1) & 4095) < NEAR)
        for (; size > SHORT_COPY; into += SHORT_COPY, from += SHORT_COPY, size -= SHORT_COPY)
            memcpy(into, from, SHORT_COPY);
    memcpy(into, from, size);
}

#ifdef __SSE2__
#include <emmintrin.h>

#define STREAMED (1 << 13) /* bytes of a text, at least */
#define SLOW 0.25e-9       /* as copying.py has them: a test reads these lines */
#define TRIES 3
#define LOOKS 16
#define PATIENCE (1 << 12)
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

/* Copy a text onto a board in the way that is quicker, as those before it tell: `Stores` in copying.py, in short. Where
   they stream, every 16th is stored plainly, to see whether that is still slow. */
static void store(char *into, const char *from, Py_ssize_t size)
{
    static int streaming, against, left, patience = TRIES; /* against: texts that speak against the way that there is */
    static double plain;                                   /* seconds a byte */
    if (size < STREAMED) {
        plain_bytes(into, from, size);
        return;
    }
    int streams = streaming && streaming++ < LOOKS;
    double begin = now();
    if (streams)
        stream_bytes(into, from, size);
    else
        plain_bytes(into, from, size);
    double rate = (now() - begin) / size;
    int looked = streaming && !streams, good = streams ? rate <= plain / 2 : rate < SLOW;
    if (looked && !good)
        streaming = 1, plain = rate, patience = TRIES;
    else if (looked || (streams && !good && ++against >= TRIES))
        streaming = against = 0, left = patience, patience = patience < PATIENCE ? 2 * patience : PATIENCE;
    else if (good)
        against = 0;
    else if (!streams && left)
        left--;
    else if (!streams && ++against >= TRIES)
        streaming = 1, against = 0, plain = rate;
}
#define STREAMS 1
#else
#define STREAMS 0
#define stream_bytes plain_bytes
#define store plain_bytes
#endif
