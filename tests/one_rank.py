"""One rank of a pytest session under mpiexec: its output goes to a file of its own.

python tests/one_rank.py DIRECTORY PYTEST-ARGUMENTS
"""

import os
import sys
from pathlib import Path

import pytest

LIMIT = 240  # seconds for one test
OPTIONS = [
    *("--only-mpi", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
    # With more ranks than cores a thread for each test, to end it or to watch it, takes longer than the test.
    *(f"--timeout={LIMIT}", "--timeout-method=signal", "--capture=no"),
]


def main() -> int:
    directory = Path(sys.argv[1])
    rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
    log = os.open(directory / f"rank-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # A directory of its own: pytest's shared one is cleaned up by every session, and the ranks would race there.
    code = int(pytest.main([*OPTIONS, *sys.argv[2:], f"--basetemp={directory / f'temporary-{rank}'}"]))
    (directory / f"exit-{rank}").write_text(str(code))
    return code


if __name__ == "__main__":
    sys.exit(main())
