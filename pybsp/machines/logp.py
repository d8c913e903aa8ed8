"""The parameters of a LogP machine: latency L, overhead o and gap G, in steps of so many seconds; G_word (LogGP).

Bilardi, Herley, Pietracaprina, Pucci and Spirakis, *BSP vs LogP*, section 2.2.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UsageError, argument_error, brief, usage_error
from ..ground.decoding import LARGEST, each, flag, number, optional, table
from ..ground.instead import hinting
from ..processes.process import MOST_PROCESSORS
from .bsp import BSPMachine
from .ebsp import EBSPMachine
from .machine_file import ABOVE, LEAST, PROCESSORS, MachinePart, check_flag, is_finite

_LEAST_STEP = 1e-290  # seconds of a LogP machine's step, so that times are finite numbers of steps


@hinting("LogPMachine")
@dataclass(frozen=True)
class LogPMachine(MachinePart):
    """A LogP machine of p processors.

    Args:
        p: processors.
        L: latency: steps, at most, from a message's acceptance by the medium to its delivery.
        o: overhead: steps that a processor is busy to prepare a message, and to acquire one.
        G: gap: steps, at least, between two submissions of a processor, and between two acquisitions.
        step: seconds of a step.
        G_word: seconds for each further word of a long message (LogGP's G, here as in *LogGP*, Alexandrov et al.); None
            where it is not known: then sizes do not count. `pybsp.logp.simulate` and `check` count them; bounds and
            routers are the model's of short messages.
        calibrated: whether the figures were measured; the nominal machine's were not.
        intervals: of L, o, G and G_word where they were measured: (lowest, highest), in seconds.

    Raises:
        UsageError: a parameter that is negative, or no whole number of steps, or more than 2^53; a step below 1e-290,
            or in which one is no finite number of seconds.

    Examples:
        >>> machine = pybsp.LogPMachine(p=8, L=16, o=1, G=4)
        >>> machine.capacity, machine.flags
        (4, ())
        >>> machine.save("machine.json")
        >>> pybsp.LogPMachine.load("machine.json") == machine
        True
    """

    p: int
    L: int
    o: int
    G: int
    step: float = 1.0
    G_word: float | None = None
    calibrated: bool = True
    intervals: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict, compare=False)

    _PART = "logp"
    _REQUIRED = types.MappingProxyType({"p": PROCESSORS, "L": LEAST, "o": LEAST, "G": LEAST})
    _OPTIONAL = types.MappingProxyType(
        {
            "step": ABOVE,
            "G_word": optional(LEAST),
            "calibrated": flag,
            "intervals": table(each(number(-sys.float_info.max), least=2, most=2)),
        }
    )

    def __post_init__(self) -> None:
        self._of_python()
        for name, least in (("p", 1), ("L", 1), ("o", 0), ("G", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                unit = "" if name == "p" else " of steps"
                raise UsageError(
                    f"LogPMachine: {name} must be a whole number{unit}, at least {least}, got {brief(value)}"
                )
            if name == "p" and value > MOST_PROCESSORS:
                raise UsageError(f"LogPMachine: p must be at most {MOST_PROCESSORS}, got {brief(value)}")
            if name != "p" and value > LARGEST:  # in seconds, as a file has it, it would be no whole number of steps
                raise UsageError(
                    f"LogPMachine: {name} must be at most 2^53 steps, got {brief(value)}; take a longer step"
                )
        if not is_finite(self.step) or self.step < _LEAST_STEP:
            raise UsageError(
                f"LogPMachine: step must be finite and at least {_LEAST_STEP} (seconds), got {self.step!r}"
            )
        if not is_finite(self.step * max(self.L, self.o, self.G)):
            raise UsageError(f"LogPMachine: L, o and G must be finite in seconds, got step = {self.step!r}")
        if self.G_word is not None and not (is_finite(self.G_word) and self.G_word >= 0):
            raise UsageError(f"LogPMachine: G_word must be finite and at least 0 (seconds), got {self.G_word!r}")
        check_flag("LogPMachine", "calibrated", self.calibrated)
        if not isinstance(self.intervals, dict) or not all(
            isinstance(name, str) and isinstance(ends, (tuple, list)) and len(ends) == 2 and all(map(is_finite, ends))
            for name, ends in self.intervals.items()
        ):
            raise UsageError(
                f"LogPMachine: intervals must be pairs of finite seconds by name, got {brief(self.intervals, 80)}"
            )

    @property
    def capacity(self) -> int:
        """Messages that may be in transit to one destination: ceil(L/G).

        Examples:
            >>> pybsp.LogPMachine(p=8, L=10, o=1, G=4).capacity
            3
        """
        return -(-self.L // self.G)

    @property
    def flags(self) -> tuple[str, ...]:
        """What of max{2, o} <= G <= L does not hold, and why it should (*BSP vs LogP*, section 2.2).

        Examples:
            >>> pybsp.LogPMachine(p=8, L=16, o=6, G=4).flags[0].split(":")[0]
            'G = 4 is below o = 6'
        """
        broken = []
        if self.G < 2:
            broken.append(
                f"G = {self.G} is below 2: then up to L messages may be in transit to one processor, one of which "
                "must be delivered in each step from the first on, so that from some source a message takes one step"
            )
        if self.o > self.G:
            broken.append(
                f"G = {self.G} is below o = {self.o}: a processor is busy o steps with each message, so that it can "
                "never send, or acquire, one every G steps; take G = o"
            )
        if self.G > self.L:
            broken.append(
                f"G = {self.G} is above L = {self.L}: one message in transit obeys the capacity constraint; "
                "yet messages can arrive every L steps and be acquired only every G: no input buffer is large enough"
            )
        return tuple(broken)

    def require(self, operation: str) -> None:
        """Raise UsageError where max{2, o} <= G <= L does not hold, with the reasons.

        Examples:
            >>> pybsp.LogPMachine(p=8, L=16, o=1, G=4).require("my program")
            >>> try:
            ...     pybsp.LogPMachine(p=8, L=2, o=1, G=4).require("my program")
            ... except pybsp.UsageError as error:
            ...     print(str(error).split(":")[0])
            my program
        """
        if self.flags:
            raise UsageError(f"{operation}: machine: max{{2, o}} <= G <= L does not hold: " + "; ".join(self.flags))

    @classmethod
    def nominal(cls, p: int) -> LogPMachine:
        """Round figures of a machine that nobody has measured: L = 16, o = 1, G = 4 steps of a microsecond.

        Examples:
            >>> pybsp.LogPMachine.nominal(p=4)
            LogPMachine(p=4, L=16, o=1, G=4, step=1e-06, G_word=None, calibrated=False, intervals={})
        """
        return cls(p=p, L=16, o=1, G=4, step=1e-6, calibrated=False)

    @classmethod
    def from_bsp(cls, machine: BSPMachine | EBSPMachine, words: int = 1) -> LogPMachine:
        """The LogP machine of Theorem 2: G = Theta(g) and L = Theta(l), for messages of so many words.

        A step is a quarter of the gap; an overhead of o_msg, if that is below the gap.

        Raises:
            UsageError: an EBSPMachine, which has no g and l; words that are no number of at least 1; an l or o_msg of
                more than 2^51 gaps.

        Examples:
            >>> machine = pybsp.LogPMachine.from_bsp(pybsp.BSPMachine(p=8, g=1e-8, l=1e-6, r=1e9), words=4)
            >>> machine.L, machine.o, machine.G, machine.capacity
            (100, 1, 4, 25)
        """
        if not isinstance(machine, BSPMachine):
            expected = "a pybsp.BSPMachine"
            raise usage_error("LogPMachine.from_bsp", expected, type(machine).__name__, "give the LogP machine")
        words = words.item() if isinstance(words, np.generic) else words
        if not (is_finite(words) and words >= 1):
            raise argument_error("LogPMachine.from_bsp", "words", "a number of at least 1", brief(words))
        gap = machine.g * words or machine.l / 16 or 1e-9
        step = gap / 4
        if not (is_finite(step) and step > 0 and max(machine.l, machine.o_msg) / step <= LARGEST):
            got = f"l = {machine.l!r}, o_msg = {machine.o_msg!r} and a gap of {gap!r} seconds"
            raise usage_error("LogPMachine.from_bsp", "l and o_msg of at most 2^51 gaps", got)
        return cls(
            p=machine.p,
            L=max(4, math.ceil(machine.l / step)),
            o=min(4, math.ceil(machine.o_msg / step)) or 1,
            G=4,
            step=step,
            calibrated=machine.calibrated,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine into a machine file (JSON), in seconds; what else the file holds is kept.

        Examples:
            >>> import json
            >>> pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6).save("machine.json")
            >>> with open("machine.json") as file:
            ...     print(json.load(file)["logp"])
            {'p': 2, 'L': 1.6e-05, 'o': 1e-06, 'G': 4e-06, 'step': 1e-06}
        """
        part: dict[str, Any] = {"p": self.p}
        part.update({name: getattr(self, name) * self.step for name in ("L", "o", "G")})
        part["step"] = self.step
        if self.G_word is not None:
            part["G_word"] = self.G_word
        if not self.calibrated:
            part["calibrated"] = False
        if self.intervals:
            part["intervals"] = {name: list(ends) for name, ends in self.intervals.items()}
        self._write(path, part)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LogPMachine:
        """Read the LogP part of a machine file, which holds seconds.

        The step is the file's, else a round part of the smallest parameter, so that rounding to whole steps changes
        none by more than 2 %. `flags` says where max{2, o} <= G <= L does not hold.

        Raises:
            UsageError: not a machine file, a version that this pybsp does not know, no such part, or wrong values.

        Examples:
            >>> pybsp.LogPMachine(p=2, L=16, o=1, G=4, step=1e-6).save("machine.json")
            >>> pybsp.LogPMachine.load("machine.json").L
            16
        """
        part = cls._part(path)
        seconds = {name: part[name] for name in ("L", "o", "G")}
        step = part.get("step") or _round_step([value for value in seconds.values() if value > 0])
        if max(seconds.values()) > step * LARGEST:
            expected = "seconds of which L, o and G are no more than 2^53"
            raise usage_error(f"machine file {path}: {cls._PART}.step", expected, f"{step!r}")
        return cls._of(
            path,
            {
                "p": part["p"],
                "L": max(1, round(seconds["L"] / step)),
                "o": round(seconds["o"] / step),
                "G": max(1, round(seconds["G"] / step)),
                "step": step,
                "G_word": part.get("G_word"),
                "calibrated": part.get("calibrated", True),
                "intervals": {name: (low, high) for name, (low, high) in part.get("intervals", {}).items()},
            },
        )


def _round_step(seconds: list[float]) -> float:
    """A step of 1, 2 or 5 times a power of ten, at most a 25th of the smallest."""
    if not seconds:
        return 1.0
    most = max(min(seconds) / 25, 1e-300)
    power = 10.0 ** math.floor(math.log10(most))
    return next(digit * power for digit in (5, 2, 1) if digit * power <= most * (1 + 1e-9))
