"""Tables of commands: of many rows, whose lines are made without rich, they are what rich makes of them."""

import io

import pytest
from rich.console import Console

from pybsp.commands import fitting


def printed(part: object, encoding: str, width: int) -> str:
    with io.TextIOWrapper(io.BytesIO(), encoding, "replace") as file:
        Console(file=file, width=width, force_terminal=False).print(part, highlight=False)
        file.seek(0)
        return file.read()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [200, 60, 30])
@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("last", ["-", "two words ", "a label of more than 24 columns", "two\nlines"])
def test_many_rows_are_printed_as_few_are(
    monkeypatch: pytest.MonkeyPatch, encoding: str, width: int, sums: bool, last: str
) -> None:
    labels = ["", "a", " b", "total", last]
    cells = {
        "supersteps": [str(10**k) for k in range(len(labels))],
        "label": labels if encoding == "ascii" else [*labels[:-1], f"é漢字{last}"],
        "predicted/measured": ["1", "", "0.25", "1e-05", "3"],
        "h [words]": [str(7 * k) for k in range(len(labels))],
    }
    by_rich = [printed(part, encoding, width) for part in fitting.fitted(cells, width, ["h [words]"], sums=sums)]
    monkeypatch.setattr(fitting, "MANY", 1)
    parts = [printed(part, encoding, width) for part in fitting.fitted(cells, width, ["h [words]"], sums=sums)]
    assert parts == by_rich


def test_rich_is_asked_for_few_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    table = fitting._table

    def counted(cells: dict[str, list[str]], narrow: bool, sums: bool) -> object:
        lengths.append(len(cells["label"]))
        return table(cells, narrow, sums)

    monkeypatch.setattr(fitting, "_table", counted)
    for width in (0, 80):
        cells = {"label": [f"step {k}" for k in range(1000)], "h [words]": [str(k) for k in range(1000)]}
        (part,) = fitting.fitted(cells, width, [])
        assert len(printed(part, "utf-8", width or fitting.WIDTH).splitlines()) == 1000 + 5
    assert lengths == [2, 2]
