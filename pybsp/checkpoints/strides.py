"""How an array lies in memory, of which a copy in one piece knows nothing: numpy's sums go along it, bit for bit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Strides(NamedTuple):
    """How an array lies in memory, as far as the order of a sum depends on it.

    Attributes:
        axes: as they lie there, the outermost first.
        flips: of these, whether one goes backwards.
        gaps: of these, whether there is a gap behind each of its items, so that it does not go on with the next axis.
    """

    axes: list[int]
    flips: list[bool]
    gaps: list[bool]

    @classmethod
    def of(cls, array: NDArray[Any]) -> Strides:
        """Those of an array."""
        axes = np.argsort([-abs(stride) for stride in array.strides], kind="stable").tolist()
        steps = [abs(array.strides[axis]) for axis in axes]
        inside = [b * array.shape[axis] for (_, b), axis in zip(pairwise(steps), axes[1:], strict=True)]
        gaps = [step > size for step, size in zip(steps, [*inside, array.itemsize], strict=True)]
        return cls(axes, [array.strides[axis] < 0 for axis in axes], gaps)

    def straight(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array that has these, in the order of its memory, in one piece: a copy."""
        return np.ascontiguousarray(self._flipped(array.transpose(self.axes)))

    def relaid(self, straight: NDArray[Any]) -> NDArray[Any]:
        """The array that lies so, of what `straight` made."""
        found = straight
        if any(self.gaps):
            # A gap behind an axis's items: one item more of the axis in it, and of the innermost each other item.
            shape = [n + gap for n, gap in zip(straight.shape, [False, *self.gaps[:-1]], strict=True)]
            room = np.empty((*shape, 1 + self.gaps[-1]), straight.dtype)[..., 0]
            found = room[tuple(map(slice, straight.shape))]
            found[...] = straight
        return self._flipped(found).transpose(np.argsort(self.axes))

    def _flipped(self, array: NDArray[Any]) -> NDArray[Any]:
        return array[tuple(slice(None, None, -1 if flip else 1) for flip in self.flips)]


def relaid(axes: list[int], flips: list[bool], gaps: list[bool], writable: bool, straight: NDArray[Any]) -> Any:
    """The array of which a pickle has these."""
    found = Strides(axes, flips, gaps).relaid(straight)
    found.flags.writeable = writable
    return found
