"""The parameters of a BSP machine, and what a superstep costs on it.

Units are SI: seconds, words of 8 bytes, flop/s. The cost of a superstep is Valiant's in the additive form that
Juurlink and Wijshoff use (*Communication primitives for BSP computers*, section 2): w + g*h + l.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError

FORMAT = "pybsp-machine"
VERSION = 1


@dataclass(frozen=True)
class BSPMachine:
    """A BSP machine of p processors.

    Args:
        p: processors.
        g: seconds per word of an h-relation, once it is large.
        l: seconds that a superstep takes when nothing is sent and nothing computed.
        r: flop/s of one processor.
        o_msg: seconds per message, beside what its words cost.
        calibrated: whether the figures were measured; the nominal machine's were not.

    Raises:
        UsageError: a parameter that is negative, not finite, or an r or p below what can be.
    """

    p: int
    g: float
    l: float  # noqa: E741 - the model's own name
    r: float
    o_msg: float = 0.0
    calibrated: bool = True

    def __post_init__(self) -> None:
        for name in ("g", "l", "r", "o_msg"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise UsageError(f"BSPMachine: {name} must be a number, got {value!r}")
        if type(self.p) is not int or self.p < 1:
            raise UsageError(f"BSPMachine: p must be a whole number of at least 1, got {self.p!r}")
        for name in ("g", "l", "o_msg"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"BSPMachine: {name} must be finite and at least 0 (seconds), got {value!r}")
        if not (math.isfinite(self.r) and self.r > 0):
            raise UsageError(f"BSPMachine: r must be finite and above 0 (flop/s), got {self.r!r}")

    @classmethod
    def nominal(cls, p: int) -> BSPMachine:
        """Round figures of a machine that nobody has measured: 1 Gflop/s, 1 ns a word, 10 us a superstep."""
        return cls(p=p, g=1e-9, l=1e-5, r=1e9, calibrated=False)

    def time(self, w: float, h: float, messages: float = 0) -> float:
        """Seconds of a superstep: w/r + g*h + l + o_msg*messages.

        Args:
            w: flop of the busiest processor.
            h: words that the busiest processor sends or receives.
            messages: messages that the busiest processor sends or receives.
        """
        return w / self.r + self.g * h + self.l + self.o_msg * messages

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine into a machine file (JSON); what else the file holds is kept."""
        file = Path(path)
        content = _read(file) if file.exists() else {"format": FORMAT, "version": VERSION}
        content["bsp"] = {
            key: value for key, value in dataclasses.asdict(self).items() if key != "calibrated" or not value
        }
        file.write_text(json.dumps(content, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BSPMachine:
        """Read the BSP part of a machine file.

        Raises:
            UsageError: not a machine file, a version that this pybsp does not know, or no BSP part.
        """
        content = _read(Path(path))
        part = content.get("bsp")
        if not isinstance(part, dict):
            raise UsageError(f"BSPMachine.load: {path} has no part 'bsp'; it holds {sorted(content)}")
        known = {field.name for field in dataclasses.fields(cls)}
        required = {"p", "g", "l", "r"}
        if not required <= set(part) <= known:
            raise UsageError(
                f"BSPMachine.load: the part 'bsp' of {path} must hold {sorted(required)} and may hold "
                f"{sorted(known - required)}, got {sorted(part)}"
            )
        return cls(**part)


def _read(file: Path) -> dict[str, object]:
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"machine file {file}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UsageError(f"machine file {file}: is not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f'machine file {file}: expected a JSON object with "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise UsageError(
            f"machine file {file}: version {content.get('version')!r} is not known here; this pybsp reads "
            f"version {VERSION}; calibrate again, or use the pybsp that wrote it"
        )
    return content


def machine_in_force(argument: BSPMachine | None, p: int) -> tuple[BSPMachine, str | None]:
    """The machine of a run of p processors, and a warning where it was made for another p.

    The argument, else the file that PYBSP_MACHINE names, else the nominal machine.
    """
    machine, origin = argument, "the argument machine"
    if machine is not None and not isinstance(machine, BSPMachine):
        raise UsageError(f"machine: expected a pybsp.BSPMachine, got {type(machine).__name__}")
    if machine is None and os.environ.get("PYBSP_MACHINE"):
        origin = os.environ["PYBSP_MACHINE"]
        machine = BSPMachine.load(origin)
    if machine is None:
        return BSPMachine.nominal(p), None
    if machine.p == p:
        return machine, None
    warning = f"{origin} is for p = {machine.p}, this run has p = {p}: its predictions are for another machine"
    return dataclasses.replace(machine, p=p), warning
