"""What a program is told that asks a processor for what it has not."""

from __future__ import annotations

import pytest

import pybsp
from pybsp import collectives
from pybsp.instead import _CALLED, instead_of


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rank", "; bsp.pid is the number of this processor"),
        ("Get_size", "; bsp.p is the number of processors"),
        ("Allreduce", "; call collectives.allreduce(bsp, ...), after `from pybsp import collectives`"),
        ("Alltoallv", "; call collectives.total_exchange_blocks(bsp, ...), after `from pybsp import collectives`"),
        ("recv", "; bsp.inbox has what was sent in the superstep before"),
        ("Send", "; bsp.send sends, and bsp.sync() brings it"),
        ("sample_sort", "; call collectives.sample_sort(bsp, ...), after `from pybsp import collectives`"),
        ("something", ""),
    ],
)
def test_a_name_that_there_is_not_is_an_error_that_says_what_there_is(name: str, hint: str) -> None:
    def main(bsp: pybsp.BSP) -> str:
        assert not hasattr(bsp, name)
        with pytest.raises(AttributeError) as caught:
            getattr(bsp, name)
        assert (caught.value.name, caught.value.obj) == (name, bsp)  # by which Python says what is spelt alike
        return str(caught.value)

    assert pybsp.simulate(main, p=1).results == [f"bsp.{name}: there is none{hint}"]


def test_a_property_that_lacks_something_is_no_name_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybsp.BSP, "pending", property(lambda bsp: bsp.pid.nothing))

    def main(bsp: pybsp.BSP) -> None:
        bsp.pending  # noqa: B018

    with pytest.raises(AttributeError, match=r"bsp\.pending: what it is made from lacks an attribute"):
        pybsp.simulate(main, p=1)


def test_every_collective_that_is_named_instead_is_one() -> None:
    assert all(callable(getattr(collectives, name)) for name in _CALLED.values())


def test_no_name_of_a_processor_has_something_instead() -> None:
    assert [name for name in dir(pybsp.BSP) if instead_of(name)] == []
