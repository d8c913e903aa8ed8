"""What a calibration says in words: all sentences that flags have, in one place; fits give the figures.

A sentence is found by the flag's code, and a word more where one code has several. Fields are formatted as by
`str.format`, and by UNITS that a person reads: {x:three} (three digits), {x:seconds}, {x:bytes}, {x:giga} and so on,
and {x:interval a word} for an estimate with its interval, in seconds "a word".
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

from .estimates import Flag
from .results import Segment
from .samples import Point
from .words import number, seconds, size, times_of

SENTENCES = {
    # Supersteps.
    "unidentifiable bsp": "l, o_msg and g cannot be told apart: no points differ in the number of messages but not in "
    "words (condition number {condition:three}, at most {most:.0f}); o_msg is taken as 0 and is contained in g and l; "
    "measure more patterns or sizes",
    "unidentifiable g": "g and o_msg are not known: too few supersteps that send something were measured to tell them "
    "from l; `--resume`, or a larger budget, measures more",
    "residual": "{count} of {all} points are over {most:.0%} off the fit; the worst, {point.pattern} of "
    "{point.busiest} messages and {point.h} words, took {took:seconds}, by the fit {fitted:seconds}",
    "residual queues": "{count} of {all} supersteps with queues are over {most:.0%} off; the worst, of {point.items} "
    "items, took {took:seconds}, by o_item {fitted:seconds}",
    "lack-of-fit": "supersteps depart from the fit by {misfit:.1%} (root mean square), their medians differ by "
    "{noise:.1%} by chance: lack of fit (F-test, p = {probability:.1g}), of which the intervals tell nothing",
    "not-positive": "medians that are not above 0, and were left out: {names}",
    "negative": "{name}{begin:onward} comes out negative, {found:interval {name:per}}: predictions take it as 0 and "
    "the rest fitted so",
    "negative unused": "{name} came out as {found:seconds}: predictions use 0",
    "wide": "{name}{begin:onward} is known poorly: {found:interval {name:per}}",
    "empty": "an empty superstep takes {empty:seconds}, one that sends something {sending:seconds} beside its messages "
    "and words: l is the former, predictions of supersteps that send use the latter",
    "regimes": "g is not constant beyond messages of {where}: {count} regimes ({lines})",
    "pattern": "g of pattern {name} is {found:seconds} a word, {times:times} times the g of all patterns "
    "({g:seconds}), which costs and predictions of whole supersteps use",
    "not-linear bsp": "{name} from differences is {other:seconds}, from least squares {found:seconds}, over 10 % "
    "apart: not a straight line",
    "not-robust": "{name} from Theil-Sen is {other:seconds}, from least squares {found:seconds}, over 10 % apart: a "
    "few points have much of the say",
    "method": "l, g and o_msg are by {method}'s method, which gives no intervals",
    # Computing.
    "uneven-rates": "processor {pid} computes {kernel} on {size:bytes} {spread:three} times slower than the fastest: "
    "the slowest's rate is what a superstep waits for",
    "one-rate": "r is no single number: {slow.rate.value:giga} Gflop/s ({slow.kernel}, {slow.size:bytes}) to "
    "{fast.rate.value:giga} ({fast.kernel}, {fast.size:bytes}); predictions use {r:giga}, the geometric mean of the "
    "vector kernels",
    "no-rate": "r was not measured: predictions use a nominal 1 Gflop/s",
    # E-BSP.
    "unidentifiable ebsp": "g1 and g2 cannot be told apart (condition number {condition:three}, at most {most:.0f}): "
    "no or too few patterns in which some processors send more than others; E-BSP is not fitted",
    "negative ebsp": "{name} of E-BSP comes out negative, {found:interval}: taken as 0, the rest fitted so",
    "ebsp-kept": "E-BSP is kept: held-out supersteps are off by {ebsp:.1%} (median) under E-BSP and {bsp:.1%} under "
    "BSP",
    "ebsp-dropped": "BSP is kept, not E-BSP: held-out supersteps are off by {ebsp:.1%} (median) under E-BSP and "
    "{bsp:.1%} under BSP",
    "ebsp-dropped zero": "BSP is kept, not E-BSP: held-out supersteps are off by {ebsp:.1%} (median) under E-BSP and "
    "{bsp:.1%} under BSP and g1 is zero within its interval",
    "ebsp-dropped unseen": "nothing was held out to compare E-BSP with BSP by: BSP is kept",
    # Predictions.
    "held-out": "predictions of supersteps that nothing was fitted from{pattern:alone} are off by {found.median:.0%} "
    "(median), {found.p95:.0%} (95th percentile); mostly too {found.bias:way}",
    # LogP.
    "eager-limit": "messages of {waits} bytes wait for their receiver, larger ones up to {eager} bytes do not: there "
    "is no one eager limit",
    "delay-below-gap": "o_s of {size} bytes: the sends were {delay:seconds} apart, less than the gap, {gap:seconds}; "
    "this train is left out",
    "o_s-disagrees": "o_s of {size} bytes is {send:seconds} by the time of a send, {train:seconds} by a train with "
    "delays: what a send starts goes on after it has returned",
    "trains-disagree": "the gap of {size} bytes is {gaps[0]:seconds} in trains of {lengths[0]} messages, "
    "{gaps[1]:seconds} in trains of {lengths[1]}: more than {most:.0%} apart",
    "no-overhead": "{absent} of {size} bytes is not known, and taken as 0 for L",
    "capacity": "{fewer} senders at once do not wait, {more} do; ceil(L/G) is {expected}",
    "capacity burst": "a burst of {senders} takes {burst:seconds} a send, which takes {send:seconds} otherwise: bursts "
    "are held against the former",
    "one-sample": "{single} of {points} LogP points have one sample: how sure the figures from them are is not known, "
    "and intervals are too narrow",
    "overhead-dominated": "messages follow one another as fast as a processor handles them, at every size: the "
    "network's own gap is hidden, and G_word is what a processor takes for a word",
    "overhead-dominated smallest": "o <= G cannot be told: the gap of {gap:seconds} between small messages is no more "
    "than the overhead of {overhead:seconds}; the network's own gap is hidden below it",
    "not-linear gap": "from {size} bytes on the gap is not linear in the size: it is up to {residual:.1%} off the "
    "line, more than its noise explains",
    "G-word-disagrees": "a further word takes {train:seconds} in a train, {single:seconds} in a single message, more "
    "than 10 % apart: what a train overlaps, a single message does in turn, or the reverse",
    "gap-above-latency": "G <= L does not hold: G = {G:seconds}, L = {L:seconds}",
    "negative logp": "{name} = {found.value:seconds}, [{found.low:seconds}, {found.high:seconds}], is negative",
    "negative logp L": "L = {found.value:seconds}, [{found.low:seconds}, {found.high:seconds}], is negative: overheads "
    "overlap with the flight, so that subtracting them is wrong",
    "wide logp": "{name} = {found.value:seconds}: its interval [{found.low:seconds}, {found.high:seconds}] is wider "
    "than itself",
    "no-logp": "L, o or G came out as nothing a machine can have: the file has no LogP machine",
    "L-hidden": "L came out as {L:seconds}: programs use {half:seconds}, half a round trip",
    # The machine while it was measured.
    "noisy": "samples scatter: half of the points have a mean over {skew:three} times their median; the machine was "
    "probably not ours alone",
    "not-converged": "{unconverged} of {points} points are known to no better than 5 %: more samples (a larger budget, "
    "or a quieter machine) would tell",
    "drift": "the machine changed: {pattern:reference} took {ratio:three} times as long at the end of launch "
    "{launch} as at its start",
    "two-states": "the machine went to and fro between two states, in which the reference superstep took "
    "{usual:seconds} and {other:seconds}: figures are of the former, {share:.0%} of the time; in the other, programs "
    "take longer or shorter than predicted",
    "few-launches": "{launches:launches}: intervals do not contain what differs from one start of the program to "
    "the next, which {enough} launches would tell",
    "launches-differ": "launches differ: supersteps of launch {slow} took {ratio:three} times as long as those of "
    "launch {fast} (median over the points)",
    "oversubscribed": "{ranks} processors share {cores} core(s) on node {node}: they wait for their turns",
    "not-dedicated": "node {node} was busy before the calibration began: a load average of {load:three}",
    "slow-processor": "processor {pid} computes {ratio:three} times slower than the others (median over the kernels): "
    "a slower core, or one that it shares",
    "shared-core": "processor {pid}'s kernels take {skew:three} times their median on average: something else runs on "
    "its core",
    # What the raw samples are of.
    "one-processor": "p = 1: r and an empty superstep are all that there is to measure; g, o_msg, L, o, G and E-BSP "
    "need another processor to send to (`pybsp calibrate -n 2`)",
    "cut": "{missing}",
    "unfinished": "the calibration did not come to its end: {ended} of {launches} launches are whole; `pybsp calibrate "
    "--resume` goes on",
    "unsteady": "supersteps still drifted when warming up was given up",
    "left-out": "supersteps that take longer than {level} affords were left out: {patterns}, the largest with messages "
    "of {largest} bytes",
    "not-measured": "{limit}no time was left for {points}",
    "budget": "{limit}not known to 5 % at its end: {points}",
}


UNITS: dict[str, Callable[[Any], str]] = {
    "three": number,
    "seconds": seconds,
    "bytes": size,
    "giga": lambda rate: number(rate / 1e9),
    "times": lambda ratio: number(ratio) if math.isfinite(ratio) else "many",
    "launches": lambda count: f"{count} launch{'es' * (count > 1)}",
    "onward": lambda begin: f" of messages from {size(begin)} on" if begin else "",
    "alone": lambda pattern: f", {pattern}," if pattern else "",
    "way": lambda bias: "long" if bias > 0 else "short",
    "reference": lambda pattern: f"the reference superstep ({pattern})" if pattern else "supersteps of many words",
    "per": lambda name: {"l": "", "o_msg": "a message", "g": "a word", "o_item": "an item"}[name],
}


class _Units(string.Formatter):
    """Formats figures in the units that the sentences name."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec.startswith("interval"):
            return times_of(value, spec.removeprefix("interval").strip())
        return UNITS[spec](value) if spec in UNITS else format(value, spec)


def flag(sentence: str, about: str | int = "", **figures: Any) -> Flag:
    """A flag.

    Args:
        sentence: of SENTENCES.
        about: the parameter, the pattern or the processor concerned, "" for the whole calibration.
        figures: what the sentence names.
    """
    text = _Units().vformat(SENTENCES[sentence], (), figures)
    return Flag(sentence.split(" ")[0], text, f"processor {about}" if isinstance(about, int) else about)


def of_class(found: Flag, where: str) -> Flag:
    """A flag of the fit of one class of pairs."""
    return Flag(found.code, f"{where}: {found.text}", f"{where} {found.about}".rstrip())


def left_out(found: Sequence[tuple[Point, int]]) -> list[Flag]:
    """A flag where points were left out of a `Table`, with their names."""
    if not found:
        return []
    what = "{0.pattern} of {0.busiest} messages and {0.h} words", "{0.pattern} of {0.size} bytes"
    names = [f"{what[q.experiment == 'logp'].format(q)} (launch {launch})" for q, launch in found]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return [flag("not-positive", found[0][0].pattern, names="; ".join(names[:4]) + more)]


def regimes(segments: Sequence[Segment]) -> list[Flag]:
    """A flag where there are several lines."""
    if len(segments) == 1:
        return []
    lines = (
        f"{f'from {size(8 * s.words)} on' if s.words else 'below'} g = {seconds(s.g.value)} a word, "
        f"o_msg = {seconds(s.o_msg.value)}, l = {seconds(s.l.value)}"
        for s in segments
    )
    where = " and ".join(size(8 * segment.words) for segment in segments[1:])
    count = {2: "two", 3: "three", 4: "four"}.get(len(segments), f"{len(segments)}")
    return [flag("regimes", "g", where=where, count=count, lines="; ".join(lines))]
