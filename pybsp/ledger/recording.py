"""The ledger file that a job's runs are added to while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError
from ..ground import settings
from ..ground.announcing import announce
from .ledger import NOTHING_KNOWN, Ledger
from .ledger_file import append_run


class LedgerFile:
    """The ledger file that the runs of this process are added to; the first one begins it anew."""

    def __init__(self) -> None:
        self._runs = 0

    def add(self, path: str, ledger: Ledger, circumstances: Mapping[str, Sequence[float]] = NOTHING_KNOWN) -> None:
        """Add a run, or say on stderr why not: the run's result is worth more than its record."""
        acknowledge()
        try:
            append_run(path, ledger.as_json(circumstances), self._runs == 0)
            self._runs += 1
        except (OSError, UsageError) as error:
            announce(
                f"pybsp: the ledger of this run could not be written to {path} ({error}); what the file held is as it "
                "was, and the program goes on with its result"
            )


def acknowledge(ending: str = "") -> None:
    """Let the command that has asked for a ledger know that a run writes it, or has said why not.

    Args:
        ending: of the name of what it looks for; "": of the ledger.
    """
    receipt = settings.text(settings.RECEIPT)
    if receipt:
        with suppress(OSError):
            Path(receipt + ending).touch()
