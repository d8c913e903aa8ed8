"""What the analysis says of every stage, checked (*Deterministic Routing of h-relations on the Multibutterfly*, 4)."""

from __future__ import annotations

import numpy as np

from ...errors import RoutingError
from .protocol import Protocol, h_bar
from .wiring import Ints


class Lemmas:
    """To be called at the beginning of each stage, and at the end, of one run of a protocol that has all rows.

    Checked are: Lemma 2, |S(x)| in stage k at most rho^(k - i) times that in stage i, for each i-splitter, side and x;
    Lemma 3, W at most h-bar; Theorem 2, at most 2 h-bar messages through a node; that each node has g' + g'' ghosts on
    either side, and a port fewer full buffers than W.

    Args:
        rho: of Lemma 2: R/(32d) with Theorem 2's Z. None: it is not checked.

    Attributes:
        decay: in stage i + a the largest |S(x)| over its size in stage i, at [a].
        worst: the largest |S(x)| at its beginning over the inputs of its splitter, for x > h: at most alpha, or the
            lemmas do not hold.

    Raises:
        RoutingError: when called, and one of these is not so.

    Examples:
        >>> from pybsp.routing import relations
        >>> from pybsp.routing.multibutterfly import Lemmas, Multibutterfly, route
        >>> lemmas = Lemmas()
        >>> outcome = route(Multibutterfly(N=64, d=20), relations.permutation(2), L=32, lemmas=lemmas)
        >>> outcome.stages
        6
    """

    def __init__(self, rho: float | None = None) -> None:
        self.rho = rho
        self.decay: list[float] = []
        self.worst = 0.0
        # Of each set of a splitter, side and x: a number, its size at its beginning, and when that was.
        self._sets, self._size, self._born = np.empty((3, 0), np.int64)

    def __call__(self, protocol: Protocol) -> None:
        self._buffers(protocol)
        self._sizes(protocol)

    def _buffers(self, p: Protocol) -> None:
        most = h_bar(p.h, p.d, p.R)
        inputs = slice(0, 2 * p.rows * p.columns)
        _must(p, "Lemma 3: W at a splitter's input", int(p.W[inputs].max(initial=0)), most)
        through = p.got.reshape(-1, 2).sum(axis=1)
        _must(p, "Theorem 2: messages through a node", int(through.max(initial=0)), 2 * most)
        ports = slice(0, 2 * p.rows * (min(p.stage, p.columns) + 1))
        _must(p, "section 4: full buffers of a port, less W", int((p.top - p.W)[ports].max(initial=-1)), -1)
        outputs = slice(p.rows, p.rows * (min(p.stage, p.columns) + 1))
        wrong = (p.top - p.got).reshape(-1, 2)[outputs] != (p.g1 + p.g2)[outputs, None]
        _must(p, "section 3: nodes without g' + g'' ghosts on either side", int(wrong.sum()), 0)

    def _sizes(self, p: Protocol) -> None:
        column, row = np.divmod(p.unset // 2, p.rows)
        splitter = (column * p.rows + (row >> p.columns - column)) * 2 + p.unset % 2
        x = np.frexp(p.W[p.unset])[1].astype(np.int64)
        sets, size = np.unique(splitter * 64 + x, return_counts=True)
        new = sets // (128 * p.rows) == p.stage
        large = new & (1 << np.maximum(sets % 64 - 1, 0) > p.h)
        self.worst = max(self.worst, float((size[large] * 2.0 ** (p.stage - p.columns)).max(initial=0)))
        left: Ints = np.zeros(len(self._sets), np.int64)
        left[np.searchsorted(self._sets, sets[~new])] = size[~new]
        age = p.stage - self._born
        share = left / self._size
        for a in range(1, p.stage + 1):
            if a >= len(self.decay):
                self.decay += [0.0] * (a + 1 - len(self.decay))
            self.decay[a] = max(self.decay[a], float(share[age == a].max(initial=0)))
        if self.rho is not None:
            beyond = left > self.rho**age * self._size
            _must(p, f"Lemma 2: sets S(x) beyond {self.rho:.3g}^(k - i) of their size", int(beyond.sum()), 0)
        self._sets = np.concatenate((self._sets, sets[new]))
        self._size = np.concatenate((self._size, size[new]))
        self._born = np.concatenate((self._born, np.full(np.count_nonzero(new), p.stage)))


def _must(protocol: Protocol, what: str, got: int, most: int) -> None:
    if got > most:
        raise RoutingError(f"multibutterfly, beginning of stage {protocol.stage}: {what}: at most {most}, got {got}")
