"""Routers say whether to close one is an exchange, in which others may wait: of most it is none."""

from __future__ import annotations

from typing import Any

import pytest

import pybsp


@pytest.mark.fast
@pytest.mark.parametrize("router", ["direct", "two-phase", "hypercube", "sparse", "multibutterfly"])
def test_to_close_a_router_is_no_exchange_and_it_says_so(router: str) -> None:
    exchanged: list[str] = []

    def main(bsp: pybsp.BSP) -> bool:
        engine = bsp._superstep
        transport: Any = engine.transport
        exchange, close = transport.exchange, engine.router.close

        def counted(*args: Any, **more: Any) -> Any:
            exchanged.append(router)
            return exchange(*args, **more)

        def closing() -> None:
            transport.exchange = counted
            close()

        engine.router.close = closing  # type: ignore[method-assign]
        bsp.send((bsp.pid + 1) % bsp.p, 1.5)
        bsp.sync()
        return engine.router.meets_to_close

    assert pybsp.simulate(main, p=4, router=router).results == [False] * 4
    assert not exchanged
