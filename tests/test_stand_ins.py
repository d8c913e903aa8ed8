"""Modules that stand in for those whose classes have come by value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pybsp.runs.serving import _defined


class Point:
    pass


def test_what_else_a_module_has_is_found_where_it_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_value.py").write_text("CONSTANT = 7\nclass Point: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with _defined({("of_value", "Point"): Point}):
        stand_in = sys.modules["of_value"]
        assert stand_in.Point is Point
        assert not hasattr(stand_in, "__path__")
        from of_value import CONSTANT  # type: ignore[import-not-found]

        assert CONSTANT == 7
        assert sys.modules["of_value"] is stand_in
        assert stand_in.Point is Point  # as it came
        with pytest.raises(AttributeError, match="module 'of_value' has no attribute 'other'"):
            stand_in.other  # noqa: B018
    assert "of_value" not in sys.modules


def test_a_module_that_cannot_be_imported_has_what_came() -> None:
    with _defined({("of_nowhere", "Point"): Point}):
        for _ in range(2):
            with pytest.raises(ImportError, match="cannot import name 'CONSTANT' from 'of_nowhere'"):
                from of_nowhere import CONSTANT  # type: ignore[import-not-found]  # noqa: F401
        assert sys.modules["of_nowhere"].Point is Point
    assert "of_nowhere" not in sys.modules
