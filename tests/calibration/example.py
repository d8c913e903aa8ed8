"""A calibration made by hand, with everything in it, and raw samples of such a machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybsp.benchmarks.calibration.estimates import Estimate, Flag
from pybsp.benchmarks.calibration.results import (
    BSPFit,
    Calibration,
    Classes,
    ClassFit,
    EBSPFit,
    Errors,
    HeldOut,
    LogPFit,
    LogPSize,
    Noise,
    Predicted,
    Rate,
    Segment,
)
from pybsp.benchmarks.calibration.samples import Point, Raw, Sample

P = 4
KI = 1024
LATENCY, PER_MESSAGE = 45e-6, 2.5e-6  # seconds
SMALL_G, LARGE_G = 12e-9, 3e-9  # seconds a word
LIMIT = KI  # words from which on messages are large

ABOUT: dict[str, Any] = {
    "p": P,
    "hosts": ["alpha", "alpha", "beta", "beta"],
    "nodes": [0, 0, 1, 1],
    "date": "2026-01-02T03:04:05+00:00",
    "versions": {"pybsp": "0.1.0", "MPI": "MPICH [4.2]"},
    "level": "default",
    "launches": 2,
    "seed": 7,
    "word": 8,
    "method": "pybsp",
}


def about(value: float, part: float = 0.05) -> Estimate:
    """An estimate with an interval of so much on either side."""
    return Estimate(value, value - abs(value) * part, value + abs(value) * part)


def bsp_fit() -> BSPFit:
    """Two segments; one pattern is dearer than all others."""
    return BSPFit(
        l=about(LATENCY),
        o_msg=about(PER_MESSAGE),
        g=about(LARGE_G),
        segments=(
            Segment(0, about(LATENCY), about(PER_MESSAGE), about(SMALL_G)),
            Segment(LIMIT, about(LATENCY), about(PER_MESSAGE), about(LARGE_G)),
        ),
        patterns={"exchange": about(LARGE_G), "many-to-one": about(2 * LARGE_G)},
        worst="many-to-one",
        n_half=512,
        r=about(1.5e9),
        rates=(Rate("axpy", 64 * KI, about(1.5e9), 3, 1.25),),
        theil_sen={"l": 4.6e-5, "g": 3.1e-9},
        differences={"l": 4.4e-5, "g": 2.9e-9},
        residuals=Errors(0.02, 0.08, -0.001, 24),
        flags=(Flag("regimes", "g is not constant beyond 8 KiB: two regimes [12 and 3 ns]", "g"),),
        o_item=about(2e-8),
    )


def logp_fit(layer: str = "raw", where: str = "") -> LogPFit:
    """Eager up to 64 KiB; the overheads grow by 0.1 ns a byte."""
    sizes = tuple(
        LogPSize(
            size,
            about(100e-6 + size * 2e-9),
            about(3e-6 + (size - 1) * 1e-10),
            about(5e-6 + (size - 1) * 1e-10) if size <= 64 * KI else None,
            about(9e-6 + (size - 8) * 5e-10),
        )
        for size in (8, KI, 16 * KI, 64 * KI, 256 * KI)
    )
    return LogPFit(
        layer=layer,
        where=where,
        L=Estimate(42e-6, 42e-6, 50e-6),
        L_low=about(42e-6),
        L_high=about(50e-6),
        o_s=about(3e-6),
        o_r=about(5e-6),
        o=about(4e-6),
        G=about(9e-6),
        G_word=about(4e-9),
        sizes=sizes,
        eager_limit=64 * KI,
        capacity=5,
        expected=5,
        jumps=(64 * KI,),
        g=about(9e-6),
    )


def predicted_seconds(h: float, messages: float) -> float:
    """T of the machine in `bsp_fit`."""
    return LATENCY + PER_MESSAGE * messages + (LARGE_G if messages and h / messages >= LIMIT else SMALL_G) * h


def calibration() -> Calibration:
    """Everything that there can be."""
    errors = Errors(0.05, 0.12, 0.01, 2)
    points = tuple(
        Predicted(
            "halo",
            8 * words,
            2 * words,
            2,
            about(1.05 * predicted_seconds(2 * words, 2)),
            predicted_seconds(2 * words, 2),
        )
        for words in (64, 4096)
    )
    return Calibration(
        about=dict(ABOUT),
        bsp=bsp_fit(),
        ebsp=EBSPFit(
            g1=Estimate(1e-11, -2e-11, 4e-11),
            g2=about(LARGE_G),
            s=about(LATENCY),
            o_msg=about(PER_MESSAGE),
            condition=11.5,
            kept=False,
            errors={"bsp": errors, "ebsp": Errors(0.06, 0.14, 0.02, 2)},
            flags=(Flag("ebsp-dropped", "BSP is kept, not E-BSP", "g1"),),
        ),
        classes=Classes(
            fits={
                where: ClassFit(where, about(LATENCY), about(PER_MESSAGE), about(LARGE_G * factor))
                for where, factor in (("intra", 0.5), ("inter", 1.0), ("inter-all", 2.0))
            },
            injection=about(2.5e8),
            errors={"plain": errors, "max": errors, "sum": errors},
        ),
        logp=(logp_fit("logp"), logp_fit("raw")),
        held_out=HeldOut(errors, {"halo": errors}, points),
        noise=Noise(1.04, 1.02, 0.12, 1, 30),
        flags=(Flag("few-launches", "2 launches: intervals are those of batches"),),
    )


def raw() -> Raw:
    """Samples of the machine in `calibration`, two launches with a noise of 3 %."""
    points = [
        Point("bsp", "empty", "bsp"),
        Point("repeat", "exchange", "bsp", size=8, messages=1, h_out=3, h_in=3, busiest=3),
    ]
    for pattern, others in (("exchange", P - 1), ("permutation", 1)):
        for messages in (1, 8):
            for words in (1, 32, 256, KI, 16 * KI):
                h, busiest = others * messages * words, others * messages
                points.append(
                    Point("bsp", pattern, "bsp", size=8 * words, messages=messages, h_out=h, h_in=h, busiest=busiest)
                )
    points.append(Point("bsp", "shift", "bsp", size=8, messages=1, h_out=1, h_in=1, busiest=1))
    points.append(Point("rate", "axpy", size=64 * KI, work=1e4))
    points.append(Point("logp", "round-trip", "raw", size=8))
    rng = np.random.default_rng(1)
    samples = []
    for launch in range(2):
        at = 0.0
        for batch in range(4):
            for point in points:
                for pid in range(P) if point.experiment == "rate" else (-1,):
                    for _ in range(3):
                        seconds = predicted_seconds(point.h, point.busiest) * float(np.exp(0.03 * rng.normal()))
                        samples.append(Sample(point, launch, batch, 10, seconds, at, pid))
                        at += 10 * seconds
    return Raw(dict(ABOUT), samples, [{"event": "finished"}])
