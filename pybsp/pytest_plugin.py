"""The pytest plugin: a test is a program, `def test_x(bsp)`, and runs on virtual processors or on MPI ranks.

    pytest                      on virtual processors
    pytest --bsp-ranks          on ranks, which are started for the tests: one job for all tests of a p
    mpiexec -n 4 pytest         on the ranks of this job, the tests of its p

In the first two pytest runs once, here: fixtures are made here, and a test goes with them to the processors. In the
third each rank runs pytest, with fixtures of its own. Where hypothesis draws examples it does so once, for all.
"""

from __future__ import annotations

import copyreg
import faulthandler
import inspect
import os
import signal
import sys
import threading
import time
import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

from .ground.managed import managed

if TYPE_CHECKING:
    from .bsp import BSP
    from .errors import BSPError
    from .runs.job import Ended
    from .runs.started import Ranks
    from .testing import RankWarning

OPTIONS = ("router", "machine", "checked")  # of a mark, that are those of a run

REPORTING = 0.3  # seconds that late ranks get to print where they are, before the job ends
ASSUMES = "Using `assume` outside"  # a warning of hypothesis on ranks where its test has not begun
FOREVER = 1e6  # seconds: a limit that nobody reaches
ON_RANKS = 60.0  # seconds: the limit of a test that has no other; on virtual processors it has none then
MOMENT = 5.0  # seconds after which a test ends a job that has outlasted its limit, and that of who waits for it

_started = pytest.StashKey[dict[int, "Ranks"]]()
_ending = pytest.StashKey["_LastWords"]()


def _seconds(given: Any) -> float:
    """A limit; a ValueError where it is none."""
    with suppress(TypeError, ValueError):
        if not isinstance(given, bool) and float(given) > 0:
            return float(given)
    raise ValueError(f"expected seconds, above 0, got {given!r}")


def _argument(text: str) -> float:
    try:
        return _seconds(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pybsp", "BSP programs")
    group.addoption("--bsp-ranks", action="store_true", help="run tests marked bsp on MPI ranks, which are started")
    group.addoption(
        "--bsp-timeout", type=_argument, help="seconds that a test may take (default: bsp_timeout, else 60 on ranks)"
    )
    parser.addini("bsp_timeout", "seconds that a test marked bsp may take; else 60 on ranks", default="")


def _limit(config: pytest.Config) -> float | None:
    """The limit of all tests that settings say.

    Raises:
        ValueError: it is none.
    """
    option: float | None = config.getoption("--bsp-timeout")
    if option is not None:
        return option
    text = config.getini("bsp_timeout")
    return _seconds(text) if text else None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_started] = {}
    try:
        _limit(config)
    except ValueError as error:
        raise pytest.UsageError(f"bsp_timeout: {error}") from None
    config.addinivalue_line(
        "markers",
        "bsp(p, timeout=60, router='direct', machine=None, checked=None): the test is a BSP program, for p processors "
        "or each number of a list; its argument bsp is its processor",
    )
    if _job() > 1:
        config.stash[_ending] = _LastWords(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    for ranks in config.stash.get(_started, {}).values():
        ranks.close()
    if _ending in config.stash:
        config.stash[_ending].close()


class _LastWords:
    """What a rank under mpiexec says on the real stderr before it ends the job and pytest with it.

    A test that hangs or calls `os._exit` does so: which one it was, what was captured of it, and where late ranks are.
    """

    def __init__(self, config: pytest.Config) -> None:
        from .runs import signals
        from .transport.launcher import last_words

        self._capture = config.pluginmanager.getplugin("capturemanager")
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            self.stderr = os.dup(2)
        self._process, self._over, self._leave = os.getpid(), False, os._exit
        signals.stderr = self.stderr
        last_words.append(self.last_word)
        os._exit = self._exit

    def _exit(self, status: int) -> NoReturn:
        if os.getpid() == self._process:  # not where a test has forked
            with suppress(Exception):
                self.say(f" by os._exit({status})", exits=True)
        self._leave(status)
        raise AssertionError

    def end_late(self, limit: float) -> None:
        """In a thread: end the job, since a test has outlasted its limit; one rank of a host says so."""
        from .processes.process import speaks
        from .transport.launcher import abort_job

        if not self._over and speaks("of a limit"):
            self.say(f", which took longer than {limit:g} s, its limit")
            faulthandler.dump_traceback(self.stderr)
        else:  # the one that speaks has this one print where it is
            self._over = True
            time.sleep(2 * REPORTING)
        abort_job()

    def last_word(self, _: str) -> None:
        """The job is about to end."""
        self.say()

    def say(self, how: str = "", exits: bool = False) -> None:
        """Say it, once.

        Args:
            how: the job ends.
            exits: whether this process does so without a word of others.
        """
        from .processes.process import launched
        from .runs import signals
        from .runs.watch import running

        if self._over:
            return
        self._over = True
        test = os.environ.get("PYTEST_CURRENT_TEST", "a session of pytest")
        out = err = ""
        if self._capture is not None:
            self._capture.suspend(in_=True)
            out, err = self._capture.read_global_capture()
        captured = "".join(f"{text.rstrip()}\n" for text in (out, err) if text.strip())
        self._write(f"\npybsp: rank {launched()[1]} ends the job in {test}{how}\n{captured}")
        number = signals.configured_signal()
        late = running[-1].late() if running and not exits else []
        if number is None or not late:
            return
        for process in late:
            with suppress(OSError):
                os.kill(process, number)
        time.sleep(REPORTING)

    def _write(self, text: str) -> None:
        left = text.encode(errors="replace")
        with suppress(OSError):
            while left:
                left = left[os.write(self.stderr, left) :]

    def close(self) -> None:
        """The session ends."""
        from .runs import signals
        from .transport.launcher import last_words

        self._over, signals.stderr = True, None
        last_words.remove(self.last_word)
        os._exit = self._leave
        os.close(self.stderr)


# -- which tests -------------------------------------------------------------------------------------------------------


class Processors(NamedTuple):
    """Where a test runs: what the fixture bsp is until a processor takes its place."""

    p: int

    def __getattr__(self, name: str) -> NoReturn:
        from .bsp import BSP
        from .errors import UsageError

        if name.startswith("_") or not hasattr(BSP, name):  # hypothesis, and others, look for marks of their own
            raise AttributeError(name)
        raise UsageError(
            f"fixture bsp: expected bsp.p alone in another fixture, which is made before processors are there, got "
            f"bsp.{name}: call that in the test"
        )


# Of the session, not of a test, as hypothesis runs a test several times with what the fixture gives.
@pytest.fixture(scope="session")
def bsp(request: pytest.FixtureRequest) -> Processors:
    """The processor that runs this test: `@pytest.mark.bsp(p=[1, 2, 4])` says of how many."""
    if not hasattr(request, "param"):
        unmarked = [
            item.nodeid
            for item in request.session.items
            if "bsp" in getattr(item, "fixturenames", ()) and item.get_closest_marker("bsp") is None
        ]
        raise pytest.Collector.CollectError(
            "fixture bsp: expected the mark @pytest.mark.bsp(p=[1, 2, 4]) on each test that asks for it, itself or by "
            f"another fixture; these have none: {', '.join(unmarked) or 'unknown'}"
        )
    return Processors(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("bsp")
    if mark is None:
        return
    name = metafunc.definition.nodeid
    if "bsp" not in inspect.signature(metafunc.function).parameters:
        raise pytest.Collector.CollectError(f"{name}: mark bsp: expected a test with an argument bsp, its processor")
    if inspect.iscoroutinefunction(metafunc.function):
        raise pytest.Collector.CollectError(f"{name}: mark bsp: expected a function, got an async one")
    wrong = set(mark.kwargs) - {"p", "timeout", *OPTIONS}
    if wrong or len(mark.args) + ("p" in mark.kwargs) != 1:
        written = [*map(repr, mark.args), *(f"{key}={value!r}" for key, value in mark.kwargs.items())]
        raise pytest.Collector.CollectError(
            f"{name}: mark bsp: expected p, and at most timeout, {', '.join(OPTIONS)} besides, as bsp(p=2) or "
            f"bsp(p=[1, 2, 4], timeout=10), got bsp({', '.join(written)})"
        )
    given = mark.args[0] if mark.args else mark.kwargs["p"]
    from .ground.convert import whole

    each = list(given) if isinstance(given, Iterable) else [given]
    numbers = [p for p in map(whole, each) if p is not None and p >= 1]
    if not each or len(numbers) < len(each):
        raise pytest.Collector.CollectError(
            f"{name}: mark bsp: argument p: expected numbers of processors, from 1, got {given!r}"
        )
    if "timeout" in mark.kwargs:
        try:
            _seconds(mark.kwargs["timeout"])
        except ValueError as error:
            raise pytest.Collector.CollectError(f"{name}: mark bsp: argument timeout: {error}") from None
    cases = [pytest.param(p, id=f"p{p}", marks=_marks(metafunc.config, p)) for p in numbers]
    metafunc.parametrize("bsp", cases, indirect=True, scope="function")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark on what has no fixtures; where MPI cannot speak with srun, say so once, and not for each test."""
    cases = getattr(sys.modules.get("unittest"), "TestCase", ())  # there where a test has such
    for item in items if cases else ():
        case = getattr(item, "cls", None)
        if isinstance(case, type) and issubclass(case, cases) and item.get_closest_marker("bsp"):
            raise pytest.UsageError(
                f"{item.nodeid}: mark bsp: expected a function, or a method of a plain class, got one of a "
                "unittest.TestCase, which has no fixtures"
            )
    from .processes import slurm

    step = slurm.step()
    if step is None or step.tasks == 1 or not any(item.get_closest_marker("bsp") for item in items):
        return
    from .errors import LauncherError
    from .transport.launcher import library

    try:
        library()
    except LauncherError as error:
        raise pytest.UsageError(str(error)) from None


def _job() -> int:
    """The ranks of this job, as its launcher says; 1 without one."""
    from .processes.process import launched

    return launched()[0]


def _marks(config: pytest.Config, p: int) -> list[pytest.MarkDecorator]:
    size = _job()
    if size == 1:
        return []
    if config.getoption("--bsp-ranks"):
        raise pytest.UsageError("--bsp-ranks starts ranks: expected no launcher; leave it out under mpiexec")
    if p != size:
        return [pytest.mark.skip(reason=f"for {p} processors, and this job has {size} ranks")]
    # pytest-mpi runs what it knows to be for MPI.
    known = any(config.getoption(name, default=False) for name in ("--with-mpi", "--only-mpi"))
    return [pytest.mark.mpi] if known else []


# -- how they run ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Under mpiexec all ranks find alike whether a test can begin, where a fixture fails on one alone too."""
    if not _of_job(item):
        return (yield)
    failed: BaseException | None = None
    try:
        yield
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as error:
        failed = error
    _begin(item, failed)
    return None


def _of_job(item: pytest.Item) -> bool:
    """Whether a test runs on the ranks of this job, each of which runs pytest."""
    size = _job()
    if size == 1 or item.get_closest_marker("bsp") is None or not isinstance(item, pytest.Function):
        return False
    return hasattr(item, "callspec") and item.callspec.params.get("bsp") == size


def _begin(item: pytest.Item, failed: BaseException | None) -> None:
    """Raise what a test ends with that cannot begin on all ranks; a session whose ranks have parted ends with it.

    Args:
        failed: with which its setup has failed here.
    """
    from .errors import ProcessorError, SyncError

    ending = None if failed is None else _ending_of(item, failed)._replace(expected=False)
    try:
        endings = _of_ranks(item, ending)
    except (SyncError, ProcessorError) as error:
        # One has ended its session, as -x does, or has other tests: those that follow would not be the same either.
        item.session.shouldfail = f"the ranks do not run the same tests: {error}"
        if failed is None:
            raise
        endings = [ending]
    if any(endings):
        _settle(item, failed, endings, ": setup failed")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    processors = pyfuncitem.funcargs.get("bsp")
    if not isinstance(processors, Processors):
        return None
    __tracebackhide__ = True
    mark = pyfuncitem.get_closest_marker("bsp")
    assert mark is not None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    way = _way(pyfuncitem, processors.p, mark.kwargs)
    if getattr(pyfuncitem.obj, "is_hypothesis_test", False):
        way.explore(pyfuncitem.obj, arguments)
    else:
        way.run(pyfuncitem.obj, (), arguments)
    return True


class _Runner:
    """How the processors of a test run it."""

    def __init__(self, item: pytest.Function, p: int, options: Mapping[str, Any], limit: float) -> None:
        self.item, self.p, self.limit = item, p, limit
        self.options = {"router": "direct", "machine": None, "checked": None, **options}

    def run(self, test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Run a test on all processors; raises what it fails with."""
        raise NotImplementedError

    def ready(self, test: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        """Processors are there, and know the test: no example waits for that."""

    def explore(self, test: Any, arguments: Mapping[str, Any]) -> None:
        """Run a test of hypothesis: each example on all processors, with the same values."""
        __tracebackhide__ = True
        self.ready(test.hypothesis.inner_test, arguments)
        with _replaced(test, self._example):
            test(**arguments)

    def _example(self, inner: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        _require_drawn(self.item, kwargs)
        self.run(inner, args, kwargs)


class _Virtual(_Runner):
    """On virtual processors in this process."""

    def run(self, test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        from .ground.failures import note_place
        from .runs.simulation import simulate
        from .testing import on_processor

        errors: list[BaseException | None] = [None] * self.p

        def main(bsp: BSP) -> None:
            try:
                on_processor(bsp, test, args, kwargs)
            except BaseException as error:
                errors[bsp.pid] = error
                raise

        try:
            with _interrupted(f"{self.item.name} took longer than {self.limit:g} s, its limit", self.limit):
                simulate(main, p=self.p, **self.options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            endings = [None if one is None else _ending_of(self.item, one) for one in errors]
            pid = _counting(endings)
            if pid is None and any(endings):
                return
            counts = None if pid is None else errors[pid]
            if counts is not None and _ending_of(self.item, counts).kind != _ending_of(self.item, error).kind:
                note_place(counts, f"(on virtual processor {pid} of {self.p})")
                error = counts
            raise _of_the_test(self.item, error) from error.__cause__


class _OnRanks(_Runner):
    """On ranks that this process starts, and keeps for the tests that follow."""

    _over: BaseException | None = None  # with which an example has ended the job

    def run(self, test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        from .errors import BSPError
        from .ground.failures import outcome
        from .testing import on_rank, warning_filters

        if self._over is not None:
            _raise(self._over, _place(self.item))
        for name, value in kwargs.items():
            if isinstance(value, pytest.WarningsRecorder):  # it can go, and would hear nothing
                raise self._unsendable(name, value, "it has the warnings of that", "; or use pytest.warns in the test")
        filters = [("ignore", ASSUMES, Warning, "", 0), *warning_filters()]
        try:
            self._attempt(kwargs, on_rank, filters, test, args, kwargs)
        except (TimeoutError, BSPError) as error:
            self._over = error
            values = ", ".join(f"{name}={value!r}" for name, value in kwargs.items() if name != "bsp")
            if values and hasattr(error, "add_note"):
                error.add_note(f"(with {values})")
            _raise(error, outcome(error).origin or _place(self.item))

    def _attempt(self, arguments: Mapping[str, Any], main: Callable[..., list[RankWarning] | None], *args: Any) -> None:
        __tracebackhide__ = True
        from .errors import UsageError
        from .ground.failures import outcome

        options = {**self.options, "timeout": None}
        with _by_value(self.item):
            try:
                ended, _ = self._ranks().attempt(main, args, {}, options, self.limit, self.item.name)
            except KeyboardInterrupt as error:
                _raise(error, outcome(error).origin)
            except UsageError:
                self._require_sendable({**arguments, "self": getattr(self.item.obj, "__self__", None)})
                raise
        for warning in dict.fromkeys(warning for one in ended for warning in one.result or ()):
            warning.show()
        _judge(self.item, ended)

    def _unsendable(self, name: str, value: Any, why: str, way_out: str = "") -> BSPError:
        from .errors import UsageError

        return UsageError(
            f"{self.item.nodeid}: argument {name}: expected what can go to ranks, by value, got a "
            f"{type(value).__name__} of pytest's process ({why}); run this test on virtual processors or under mpiexec"
            f"{way_out}"
        )

    def _require_sendable(self, arguments: Mapping[str, Any]) -> None:
        """Raise UsageError, which names it, for an argument of the test that cannot go to ranks."""
        __tracebackhide__ = True
        from .processes.shipping import pickled

        for name, value in arguments.items():
            try:
                pickled(value)
            except Exception as error:  # noqa: PERF203 - the first is named
                raise self._unsendable(name, value, f"{type(error).__name__}: {error}") from None

    def ready(self, test: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        from .testing import knows

        self._attempt(arguments, knows, test)

    def _ranks(self) -> Ranks:
        from .runs.started import Ranks
        from .testing import own_patches

        jobs = self.item.config.stash[_started]
        if self.p not in jobs:
            copyreg.pickle(pytest.MonkeyPatch, lambda _: (own_patches, ()))
            jobs[self.p] = Ranks(self.p, None)
        return jobs[self.p]


class _UnderMPI(_Runner):
    """On the ranks of this job, each of which runs pytest."""

    def run(self, test: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        from .runs.launch import run
        from .testing import of_all, on_processor

        with _limited(self.item.config, self.limit):
            try:
                run(on_processor, test, args, kwargs, timeout=self.limit, **self.options)
                return
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failed = _of_the_test(self.item, error)
            # All fail here, each with its error: what it is for the test, all find alike.
            endings = run(of_all, _ending_of(self.item, failed))
        _settle(self.item, failed, endings, " failed")

    def explore(self, test: Any, arguments: Mapping[str, Any]) -> None:
        """Processor 0 draws, and the others follow it through the examples."""
        __tracebackhide__ = True
        from .processes.process import launched

        if launched()[1]:
            self._follow(test, arguments)
            return
        ended: str | None = None
        try:
            with _replaced(test, self._lead(test, arguments)):
                test(**arguments)
        except BaseException as error:
            ended = repr(error)
            raise
        finally:
            _of_ranks(self.item, (False, ended))

    def _lead(self, test: Any, arguments: Mapping[str, Any]) -> Callable[..., None]:
        own = getattr(test, "__self__", test)  # which each rank has, and hypothesis gives by its name

        def example(inner: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
            __tracebackhide__ = True
            _require_drawn(self.item, kwargs)
            drawn = {name: value for name, value in kwargs.items() if name not in arguments and value is not own}
            _of_ranks(self.item, (True, drawn))
            self.run(inner, args, kwargs)

        return example

    def _follow(self, test: Any, arguments: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        inner = test.hypothesis.inner_test
        own = getattr(test, "__self__", None)
        last: BaseException | None = None
        while (answer := _of_ranks(self.item, None)[0])[0]:
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", ASSUMES)
                    self.run(inner, () if own is None else (own,), {**arguments, **answer[1]})
            except KeyboardInterrupt:  # noqa: PERF203 - processor 0 says whether another example follows
                raise
            except BaseException as error:
                last = error
        if answer[1] is not None:
            if last is not None:
                raise last
            pytest.fail(f"on processor 0: {answer[1]}", pytrace=False)


def _of_ranks(item: pytest.Item, value: Any) -> list[Any]:
    """The values of all ranks of this job; raises SyncError where they are in different tests."""
    from .errors import SyncError
    from .runs.launch import run
    from .testing import of_all

    found = run(of_all, (item.nodeid, value))
    names = [name for name, _ in found]
    if len(set(names)) > 1:
        raise SyncError(
            f"the processors did not run the same test: {names}; where the ranks have their tests in different orders, "
            "as pytest-randomly has it, give all the same (--randomly-seed=1, or -p no:randomly)"
        )
    return [value for _, value in found]


def _way(item: pytest.Function, p: int, given: Mapping[str, Any]) -> _Runner:
    config = item.config
    limit = given.get("timeout", _limit(config))
    options = {name: given[name] for name in OPTIONS if name in given}
    kind = _UnderMPI if _job() > 1 else _OnRanks if config.getoption("--bsp-ranks") else _Virtual
    if limit is None:
        limit = FOREVER if kind is _Virtual else ON_RANKS
    return kind(item, p, options, float(limit))


class _Ending(NamedTuple):
    """How a test has failed, or was ended, on a processor.

    own: of itself, not since another did.
    expected: `raises_on` expects that.
    kind: what it is for the test. Of those of all processors the least counts.
    summary: of the exception.
    ends: what pytest.skip or xfail said, and which of them; the mark xfail says so too.
    origin: file and line of what ends it, where these are known.
    """

    own: bool
    expected: bool
    kind: int
    summary: str
    ends: tuple[str, str] | None = None
    origin: tuple[str, int] | None = None


def _unsatisfied(text: str) -> BaseException:
    from hypothesis.errors import UnsatisfiedAssumption

    return UnsatisfiedAssumption(text)


FAILS, XFAILS, ENDS = range(3)  # kinds
# What ends a test, or an example of hypothesis, that has not failed: the class of what is raised, by its name.
VERDICTS: dict[str, Callable[[str], BaseException]] = {
    "Skipped": pytest.skip.Exception,
    "XFailed": pytest.xfail.Exception,
    "UnsatisfiedAssumption": _unsatisfied,
}


def _ending_of(item: pytest.Item, error: BaseException) -> _Ending:
    """What an exception that leaves a test is for it."""
    from .ground.failures import failure_of, outcome
    from .testing import PytestOutcome, verdict

    ends = error if isinstance(error, PytestOutcome) else verdict(error)
    failure = failure_of(error, 0, "")
    known = failure.primary, outcome(error).expected
    if ends is not None and ends.args[0] in VERDICTS:
        return _Ending(*known, ENDS, failure.summary, ends.args, _origin(item, error))
    reason = _xfails(item, error)
    if reason is not None:
        return _Ending(*known, XFAILS, failure.summary, ("XFailed", reason))
    return _Ending(*known, FAILS, failure.summary)


def _origin(item: pytest.Item, error: BaseException) -> tuple[str, int] | None:
    """File and line of what ends a test, as pytest names them: of a mark, those of the test."""
    from .ground.failures import origin

    return _place(item) if getattr(error, "_use_item_location", False) else origin(error)


def _place(item: pytest.Item) -> tuple[str, int]:
    """File and line of a test."""
    file, line, _ = item.reportinfo()
    return os.fspath(file), (line or 0) + 1


def _xfails(item: pytest.Item, error: BaseException) -> str | None:
    """The reason of the test's mark xfail, where that is for this exception; None: it is not, or there is none."""
    from _pytest.skipping import evaluate_xfail_marks

    if item.config.getoption("runxfail"):
        return None
    try:
        mark = evaluate_xfail_marks(item)
    except pytest.fail.Exception:  # a wrong condition, with which the setup has failed
        return None
    if mark is None:
        return None
    if mark.raises is None or isinstance(mark.raises, (type, tuple)):
        return mark.reason if mark.raises is None or isinstance(error, mark.raises) else None
    return mark.reason if mark.raises.matches(error) else None


def _counting(endings: Sequence[_Ending | None]) -> int | None:
    """The processor whose ending is that of the test: a failure comes before what pytest.skip said on another.

    Args:
        endings: of all processors; None of one that ended well.

    Returns:
        None: the test expects how it has ended, wherever it failed of itself.
    """
    failed = [(pid, one) for pid, one in enumerate(endings) if one is not None]
    known = [(pid, one) for pid, one in failed if one.own or one.expected] or failed
    unexpected = [(one.kind, pid) for pid, one in known if not one.expected]
    return min(unexpected)[1] if unexpected else None


def _of_the_test(item: pytest.Item, error: BaseException) -> BaseException:
    """The error, whose traceback begins in the test; of pybsp's own errors it ends there too, where it was called.

    So do those of what has caused it. One that came when the test had ended here has the test's line. With `pytest
    --full-trace` all stay whole.
    """
    __tracebackhide__ = True
    seen: set[int] = set()
    causes: list[BaseException | None] = [] if item.config.getoption("fulltrace") else [error]
    while causes:
        one = causes.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            causes += [one.__cause__, one.__context__]
            _shorten(one)
    if error.__traceback__ is None:
        with suppress(type(error)):
            _raise(error, _place(item))
    return error


def _shorten(error: BaseException) -> None:
    """Take pybsp's own steps off a traceback, as `_of_the_test` has it."""
    from .errors import BSPError
    from .ground.failures import from_the_program, is_ours

    trace = from_the_program(error.__traceback__)
    if not isinstance(error, BSPError):
        error.with_traceback(trace or error.__traceback__)
        return
    steps, rest = [], None
    while trace is not None:
        steps.append(trace)
        trace = trace.tb_next
    for step in reversed(steps):
        if not is_ours(step):
            rest = TracebackType(rest, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.with_traceback(rest)


def _judge(item: pytest.Item, ended: Sequence[Ended]) -> None:
    """Raise what a test fails with, of what has left it on all ranks."""
    __tracebackhide__ = True
    from .ground.failures import outcome
    from .runs.started import for_caller
    from .testing import PytestOutcome

    endings = [
        None if one.error is None else _ending_of(item, one.error)._replace(own=one.own, expected=one.expected)
        for one in ended
    ]
    pid = _counting(endings)
    if pid is None:
        return
    error = ended[pid].error
    assert error is not None
    if isinstance(error, PytestOutcome):
        kind, text = error.args
        _end(kind, text, _origin(item, error))
    _raise(for_caller(error, ended), outcome(error).origin or _place(item))


def _settle(item: pytest.Item, error: BaseException | None, endings: Sequence[_Ending | None], how: str) -> None:
    """Raise on this rank what the test fails with: its own error, if that is of the kind that counts.

    Args:
        error: with which it has ended here; None: with none.
        endings: of all ranks, by pid.
        how: it has ended where it failed, in words.
    """
    __tracebackhide__ = True
    pid = _counting(endings)
    if pid is None:
        return
    counts = endings[pid]
    assert counts is not None
    if error is not None and _ending_of(item, error).kind == counts.kind:
        raise error
    if counts.ends is not None:
        _end(*counts.ends, counts.origin)
    pytest.fail(f"processor {pid}{how}: {counts.summary}", pytrace=False)


def _end(kind: str, text: str, origin: tuple[str, int] | None) -> NoReturn:
    """End a test as pytest.skip, xfail or fail did on its processors, there."""
    __tracebackhide__ = True
    _raise(VERDICTS.get(kind, pytest.fail.Exception)(text), origin)


def _raise(error: BaseException, origin: tuple[str, int] | None) -> NoReturn:
    """Raise what comes from another process, as if it were raised there: pytest names the last step of a traceback."""
    __tracebackhide__ = True
    error.with_traceback(None)
    if origin is not None:
        file, line = origin
        step = compile("raise (\nerror)", file, "exec")  # columns of a statement of two lines are not marked
        exec(step.replace(co_firstlineno=line), {"error": error})
    raise error


@contextmanager
def _limited(config: pytest.Config, limit: float) -> Iterator[None]:
    """In this block a rank under mpiexec ends the job where it is late, whatever it does.

    Who waits for a rank that is late says more, and ends the job within the grace period: it comes first.
    """
    from .runs.world import grace_or_default

    words, after = config.stash[_ending], limit + grace_or_default() + MOMENT
    if not 0 < limit <= after < FOREVER:
        yield
        return
    timer = threading.Timer(after, words.end_late, (limit,))
    timer.daemon = True
    timer.start()
    # Code that does not let other threads run is ended without the help of Python, unless pytest uses that itself.
    lasting = not (config.pluginmanager.hasplugin("faulthandler") and float(config.getini("faulthandler_timeout") or 0))
    if lasting:
        faulthandler.dump_traceback_later(after + MOMENT, exit=True, file=words.stderr)
    try:
        yield
    finally:
        timer.cancel()
        if lasting:
            faulthandler.cancel_dump_traceback_later()


@managed
def _interrupted(text: str, limit: float) -> Iterator[None]:
    """In this block TimeoutError comes out of whatever takes longer, and again out of what goes on after it.

    By a signal, as virtual processors are in one thread: the main one, or there is no limit.
    """
    if limit >= FOREVER or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> NoReturn:
        raise TimeoutError(text)

    before = signal.signal(signal.SIGALRM, late)
    began, (left, again) = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, limit, MOMENT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # of who has a limit for more than this block, as pytest-timeout
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), again)


def pytest_enter_pdb() -> None:
    """Who looks at a test in Python's debugger may take as long as they like."""
    if getattr(signal.getsignal(signal.SIGALRM), "__module__", None) == __name__:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _replaced:  # noqa: N801 - used as a function is
    """In this block a test of hypothesis gives each example to `example(inner, args, kwargs)`, not to its function."""

    def __init__(self, test: Any, example: Callable[..., None]) -> None:
        self._handle, self._example = test.hypothesis, example

    def __enter__(self) -> None:
        self._inner = inner = self._handle.inner_test
        example = self._example

        @wraps(inner)
        def on_all(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            example(inner, args, kwargs)

        self._handle.inner_test = on_all

    def __exit__(self, *_: object) -> None:
        self._handle.inner_test = self._inner


def _require_drawn(item: pytest.Function, kwargs: Mapping[str, Any]) -> None:
    for name, value in kwargs.items():
        if type(value).__name__ == "DataObject":
            raise pytest.UsageError(
                f"{item.nodeid}: argument {name}: st.data() draws while the test runs, on each processor for itself; "
                "draw before, by the strategies of @given, so that all processors have the same"
            )


class _by_value:  # noqa: N801 - used as a function is
    """In this block what the module of a test defines goes to ranks by value: they need not find the module.

    So does what conftest.py defines, where pytest leaves it out of the folders in which imports are looked for, and
    where several folders have one of the same name, of which an import would find another.
    """

    def __init__(self, item: pytest.Function) -> None:
        plugins = [one for one in item.config.pluginmanager.get_plugins() if _is_conftest(one)]
        names = [one.__name__ for one in plugins]
        if item.config.getoption("importmode") != "importlib":
            plugins = [one for one in plugins if names.count(one.__name__) > 1]
        self._modules: list[Any] = [item.module, *(one for one in plugins if sys.modules.get(one.__name__) is one)]

    def __enter__(self) -> None:
        import cloudpickle

        here = cloudpickle.list_registry_pickle_by_value()
        self._modules = [one for one in self._modules if one.__name__ not in here]
        for one in self._modules:
            cloudpickle.register_pickle_by_value(one)

    def __exit__(self, *_: object) -> None:
        import cloudpickle

        for one in self._modules:
            cloudpickle.unregister_pickle_by_value(one)


def _is_conftest(plugin: Any) -> bool:
    """Whether a plugin of pytest's is a conftest.py."""
    file = getattr(plugin, "__file__", None) or ""
    return os.path.basename(file) == "conftest.py" and isinstance(plugin, ModuleType)
