"""The d-ary tree, and the degrees that are tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pybsp import UsageError
from pybsp.collectives import tree


def test_the_height_is_the_logarithm_rounded_up() -> None:
    for degree in (2, 3, 10, 1000, 10**30):
        assert tree.height(1, degree) == 0
        for power in range(1, 5):
            assert tree.height(degree**power, degree) == power
            assert tree.height(degree**power + 1, degree) == power + 1


@pytest.mark.parametrize("degree", [1, 0, -1])
def test_a_degree_below_two_has_no_tree(degree: int) -> None:
    with pytest.raises(UsageError, match="argument degree: expected a whole number of at least 2"):
        tree.height(5, degree)


def test_edges_join_the_leaders_of_groups() -> None:
    for p, degree in itertools.product([*range(1, 30), 64], [2, 3, 5, 10**30]):
        for root in {0, p // 3, p - 1}:
            seen = {root}
            for level in reversed(range(tree.height(p, degree))):
                parents, children = tree.edges(p, degree, level, root)
                assert set(parents.tolist()) <= seen
                assert not set(children.tolist()) & seen
                assert np.bincount(parents).max(initial=0) <= degree - 1
                size = degree**level
                assert (parents // (size * degree if size * degree < p else p) >= 0).all()
                seen |= set(children.tolist())
            assert seen == set(range(p))


def fans(p: int, degree: int) -> tuple[int, ...]:
    """Copies that are sent at each level, from the bottom."""
    return tuple(min(degree, -(-p // degree**level)) - 1 for level in range(tree.height(p, degree)))


@pytest.mark.whole
def test_no_degree_that_is_left_out_has_a_better_tree() -> None:
    for p in [*range(2, 200), 1000, 1024]:
        tried = [fans(p, degree) for degree in tree.degrees(p)]
        assert tree.degrees(p)[0] == 2
        assert tree.degrees(p)[-1] == p
        for degree in range(2, p + 1):
            mine = fans(p, degree)
            assert any(
                len(other) == len(mine) and all(a <= b for a, b in zip(other, mine, strict=True)) for other in tried
            ), (p, degree)


def test_few_degrees_are_tried() -> None:
    for p in (16, 256, 1024, 4096):
        assert len(tree.degrees(p)) <= 2.5 * p**0.5
    assert tree.degrees(1) == (2,)
