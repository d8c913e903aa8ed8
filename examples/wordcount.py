"""Word frequencies over the sources of this Python's own standard library.

Each processor counts the words of its share of the files; then each word's counts meet at its owner, found by a hash
that is the same in every process (Python's own hash of a string is not), and the owners send on their most frequent
words.

Supersteps, where p > 1, for D distinct words in a processor's share (pickled with its count: about 1.6 words each):

    files       processor 0 deals out the names: h = the names but its own
    count       w = the reading and counting; h = about 1.6 * D * (p - 1)/p, to the owners
    top         w = the adding of arrivals; at processor 0 h = (p - 1) * (TOP words and counts)

Run it:

    mpiexec -n 4 python examples/wordcount.py
    pybsp run -n 4 examples/wordcount.py
    pybsp simulate -p 64 examples/wordcount.py --files 100
"""

from __future__ import annotations

import argparse
import os
import re
import sysconfig
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pybsp
from pybsp import collectives

STDLIB = Path(sysconfig.get_paths()["stdlib"])
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
TOP = 20


def main(bsp: pybsp.BSP, files: int | None = None) -> list[tuple[str, int]] | None:
    """The most frequent words and their counts in the first `files` files (None: all), on processor 0."""
    paths = source_files()[:files] if bsp.pid == 0 else []
    with bsp.label("files"):
        share: list[str] = collectives.scatter(bsp, [paths[k :: bsp.p] for k in range(bsp.p)])

    parts: list[dict[str, int]] = [{} for _ in range(bsp.p)]
    for word, count in count_words(share).items():
        parts[zlib.crc32(word.encode()) % bsp.p][word] = count
    mine: Counter[str] = Counter()
    with bsp.label("count"):
        for part in collectives.total_exchange(bsp, parts):
            mine.update(part)

    with bsp.label("top"):
        found = collectives.gather(bsp, (mine.total(), len(mine), most_frequent(mine)))
    if found is None:
        return None
    total, distinct = (sum(part[k] for part in found) for k in (0, 1))
    top = most_frequent(Counter({word: count for part in found for word, count in part[2]}))
    expected = count_words(paths)
    if (total, distinct, top) != (expected.total(), len(expected), most_frequent(expected)):
        raise ArithmeticError(f"wordcount: differs from a sequential count, {most_frequent(expected)}: got {top}")
    print(f"p = {bsp.p}, {len(paths)} files, {total} words, {distinct} distinct; the most frequent:")
    for word, count in top:
        print(f"{count:8}  {word}")
    print("agrees with a sequential count")
    return top


def source_files() -> list[str]:
    """The standard library's sources, as sorted paths below STDLIB."""
    found = []
    for folder, inner, files in os.walk(STDLIB):
        inner[:] = [name for name in inner if name not in SKIPPED]
        found += [Path(folder, name).relative_to(STDLIB).as_posix() for name in files if name.endswith(".py")]
    return sorted(found)


def count_words(paths: Iterable[str]) -> Counter[str]:
    """How often each word occurs in these files; a word is letters a to z, whatever their case."""
    counts: Counter[str] = Counter()
    for path in paths:
        text = (STDLIB / path).read_text("utf-8", errors="replace")
        counts.update(re.findall("[a-z]+", text.lower()))
    return counts


def most_frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    """The TOP most frequent words; equally frequent ones by alphabet."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The most frequent words in Python's standard library.")
    parser.add_argument("--files", type=int, help="read only the first FILES files (default: all)")
    options = parser.parse_args()
    pybsp.run(main, files=options.files)
