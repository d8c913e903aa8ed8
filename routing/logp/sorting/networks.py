"""Sorting networks for any p, of the least depth known here.

Batcher's odd-even merge of two halves (Knuth, *The Art of Computer Programming*, volume 3, section 5.3.4), on top of
small networks that are shallower than his (ibid., and *Sorting networks*, B. Dobbelaere's list). The depth is that of
Batcher's sort for p <= 4, 7 and 8, and below it for all others: 9 for 16 (his: 10), 11 for 17 (15), 20 for 64 (21).
"""

from __future__ import annotations

from functools import lru_cache

Layer = tuple[tuple[int, int], ...]  # comparators (i, j), i < j: the smaller key goes to i; no processor in two

# Layers of small networks; the largest wires may be left out, which hold the largest keys.
_SMALL = {
    6: ("0-5 1-3 2-4", "1-2 3-4", "0-3 2-5", "0-1 2-3 4-5", "1-2 3-4"),
    10: (
        "0-1 2-5 3-6 4-7 8-9",
        "0-6 1-8 2-4 3-9 5-7",
        "0-2 1-3 4-5 6-8 7-9",
        "0-1 2-7 3-5 4-6 8-9",
        "1-2 3-4 5-6 7-8",
        "1-3 2-4 5-7 6-8",
        "2-3 4-5 6-7",
    ),
    12: (
        "0-8 1-7 2-6 3-11 4-10 5-9",
        "0-2 1-4 3-5 6-8 7-10 9-11",
        "0-1 2-9 4-7 5-6 10-11",
        "1-3 2-7 4-9 8-10",
        "0-1 2-3 4-5 6-7 8-9 10-11",
        "1-2 3-5 6-8 9-10",
        "2-4 3-6 5-8 7-9",
        "1-2 3-4 5-6 7-8 9-10",
    ),
    16: (
        "0-5 1-4 2-12 3-13 6-7 8-9 10-15 11-14",
        "0-2 1-10 3-6 4-7 5-14 8-11 9-12 13-15",
        "0-8 1-3 2-11 4-13 5-9 6-10 7-15 12-14",
        "0-1 2-4 3-8 5-6 7-12 9-10 11-13 14-15",
        "1-3 2-5 4-8 6-9 7-11 10-13 12-14",
        "1-2 3-5 4-11 6-8 7-9 10-12 13-14",
        "2-3 4-5 6-7 8-9 10-11 12-13",
        "4-6 5-7 8-10 9-11",
        "3-4 5-6 7-8 9-10 11-12",
    ),
}


@lru_cache(maxsize=256)
def network(p: int) -> tuple[Layer, ...]:
    """The layers of a network that sorts p keys; none for p = 1."""
    comparators, outputs = _sorted(list(range(p)))
    # The k-th smallest key comes out on wire outputs[k]: that wire is to be k.
    name = [0] * p
    for k, wire in enumerate(outputs):
        name[wire] = k
    # Where the smaller key would go to the larger number, the two swap names from there on: a network that sorts keeps
    # sorting, and ends with all names as they were (Knuth, ex. 5.3.4-16).
    ready = [0] * p  # the first layer in which a processor is free
    layers: list[list[tuple[int, int]]] = []
    for low, high in comparators:
        i, j = name[low], name[high]
        if i > j:
            i, j = j, i
            name[low], name[high] = i, j
        layer = max(ready[i], ready[j])
        if layer == len(layers):
            layers.append([])
        layers[layer].append((i, j))
        ready[i] = ready[j] = layer + 1
    return tuple(tuple(layer) for layer in layers)


def depth(p: int) -> int:
    """Layers of the network for p keys."""
    return len(network(p))


Built = tuple[list[tuple[int, int]], list[int]]  # comparators of wires, the smaller key to the first; outputs in order


def _sorted(wires: list[int]) -> Built:
    n = len(wires)
    if n < 2:
        return [], wires
    small = next((size for size in _SMALL if n in (size - 1, size) or 12 < n <= size), None)
    if small:
        pairs = (pair.split("-") for layer in _SMALL[small] for pair in layer.split())
        return [(wires[int(i)], wires[int(j)]) for i, j in pairs if int(j) < n], wires
    first, lower = _sorted(wires[: n // 2])
    second, upper = _sorted(wires[n // 2 :])
    third, outputs = merge(lower, upper)
    return first + second + third, outputs


def merge(a: list[int], b: list[int]) -> Built:
    """Batcher's odd-even merge of two sorted lists of wires: depth 1 + ceil(log2 max(len(a), len(b)))."""
    if not a or not b:
        return [], a or b
    if len(a) == len(b) == 1:
        return [(a[0], b[0])], [a[0], b[0]]
    odd, v = merge(a[0::2], b[0::2])
    even, w = merge(a[1::2], b[1::2])
    pairs = list(zip(w, v[1:], strict=False))
    outputs = [v[0], *(wire for pair in pairs for wire in pair), *w[len(pairs) :], *v[len(pairs) + 1 :]]
    return odd + even + pairs, outputs
