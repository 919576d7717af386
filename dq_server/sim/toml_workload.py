"""Workloads written by hand, in TOML: one table per job.

    [[job]]
    name = "lu"
    submit_s = 0                  # default 0
    kind = "malleable"            # rigid (default), moldable, malleable, evolving, workers
    processors = 4                # to start on
    sizes = [2, 4, 6, 9, 12]      # legal ones; or min and max; a rigid job has none of these
    iterations = 50               # with times_s: seconds of one iteration on each size
    times_s = { 2 = 100, 4 = 53, 6 = 42, 9 = 31, 12 = 28 }  # also 1x4 = 60: on this grid
    redistribution_s = 3          # what a resize costs, default 0

A size is a number, whose grid is the one nearest to a square, or a grid: "2x4". A size with several
grids is used on the first until another has shown to be faster (core/policies/grids.py).
Instead of iterations and times_s: `run_s`, the run time on `processors`; then `rho` says how it
scales (core/model/sizes.py) and `iterations` (default 100) how many remap points there are.
An evolving job asks for processors once it runs (sim/evolving.py): `run_s`, `more`, `ask_at_s`, a
list of seconds after its start, `granted_s`, its whole run time if it is granted (default: shorter
in proportion), and `timeout_s`, how long a request may wait (default 0).
One whose evolution is known has `profile` instead, a list of [seconds, processors] in whole
numbers, which the scheduler carries out (sim/evolving.py), and may have `remap_s`, the time between
two of its remap points (default: it comes when it is called), and `redistribution_s`.
A job of workers has `min` (default 0), `max` and `work_s`, the processor-seconds
that its workers do together; it takes what nobody else wants, and its workers leave at once.
`after` and `after_any` list jobs, by their place in the file from 1 on, that must have ended
(successfully, or in whatever way) before this one may start.
`reservation` names a [[reservation]] of the file to run in (features/reservations.py); such a table
has name, processors, start_s, duration_s, and perhaps user. All are known from the beginning.
Jobs with the same `application` learn from each other's runs (core/features/history.py).
What nodes have, and what jobs ask of them: sim/node_tables.py.
Also: estimate_s, walltime_s, user, group, account, class, qos, priority.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from dq_server.core.model.errors import InvalidSpec, known_words
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.profile import EvolutionProfile
from dq_server.core.model.sizes import Configuration, Scalability, grids
from dq_server.core.model.sizes import configuration as parsed
from dq_server.core.model.workers import Workers, sizes_between
from dq_server.sim import node_tables
from dq_server.sim.applications import MOST_ITERATIONS, Application, Crew, Iterating, Rigid
from dq_server.sim.errors import WorkloadError
from dq_server.sim.evolving import Evolving, ProfiledApplication
from dq_server.sim.workload import MOST_SIZES, ListedJob, ListedWorkload, Outage

_NUMBERS = {"submit_s", "run_s", "rho", "redistribution_s", "estimate_s", "walltime_s"}
_NUMBERS |= {"granted_s", "timeout_s", "remap_s", "work_s"}
_WHOLE = {"processors", "min", "max", "iterations", "priority", "more"}
_TEXTS = {
    "reservation",
    "constraint",
    "application",
    "name",
    "kind",
    "user",
    "group",
    "account",
    "class",
    "qos",
}
_KNOWN = _NUMBERS | _WHOLE | _TEXTS | {"sizes", "times_s", "ask_at_s", "profile"}
_KNOWN |= {"after", "after_any"} | node_tables.KEYS
_T = TypeVar("_T")
_ASKING = {"more", "ask_at_s", "granted_s", "timeout_s"}
DEFAULT_ITERATIONS = 100


def read_tables(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a TOML file as text and as tables; WorkloadError, with its line, if it is none."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        at = re.search(r"line (\d+)", str(error))
        where = f"{path}:{at[1]}" if at else f"{path}"
        raise WorkloadError(f"{where}: not TOML: {error}") from error


def read_toml(path: Path) -> ListedWorkload:
    """Read a workload; WorkloadError, with file and line, if it makes no sense."""
    text, data = read_tables(path)
    tables = data.get("job")
    if not isinstance(tables, list) or not tables:
        raise WorkloadError(f"{path}: there is no [[job]] in it")
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip()
             .replace(" ", "") == "[[job]]"]  # fmt: skip
    jobs = []
    for number, table in enumerate(tables, 1):
        where = f"{path}:{lines[number - 1]}" if len(lines) == len(tables) else f"{path}"
        try:
            jobs.append(_job(table, number))
        except (ValueError, InvalidSpec) as error:
            raise WorkloadError(f"{where}: job {number}: {error}") from error
    try:
        reservations = read_reservations(data.get("reservation", []))
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    try:
        nodes = node_tables.nodes(data.get("node", []))
    except ValueError as error:
        raise WorkloadError(f"{path}: [[node]]: {error}") from error
    asking = next((job.number for job in jobs if job.spec.needs is not None), None)
    if asking is not None and not nodes:
        raise WorkloadError(
            f"{path}: job {asking} asks for certain nodes, and there is no [[node]]"
        )
    return ListedWorkload(path.name, jobs, reservations, nodes)


def read_reservations(given: Any) -> list[AdvanceReservation]:
    """Return the tables [[reservation]] of a file; WorkloadError if one makes no sense."""
    return _each("reservation", given, _reservation)


def since(first_s: float, given: Iterable[AdvanceReservation]) -> list[AdvanceReservation]:
    """Return reservations whose times count from `first_s` on, by the clock of the jobs."""
    return [replace(r, start_s=first_s + r.start_s, end_s=first_s + r.end_s) for r in given]


def read_outages(given: Any) -> list[Outage]:
    """Return the tables [[outage]] of a file, the earliest first; WorkloadError if one is none."""
    found = sorted(_each("outage", given, _outage), key=lambda outage: outage.start_s)
    for one, other in pairwise(found):
        if other.start_s < one.end_s:
            raise WorkloadError(
                f"[[outage]]: the one from {other.start_s:g} s on begins before the one from"
                f" {one.start_s:g} s on ends, at {one.end_s:g} s"
            )
    return found


def _each(name: str, given: Any, made: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """What is made of each of the tables of this name."""
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise WorkloadError(f"{name}: write [[{name}]], once for each")
    try:
        return [made(table) for table in given]
    except ValueError as error:
        raise WorkloadError(f"[[{name}]]: {error}") from error


def _outage(table: dict[str, Any]) -> Outage:
    _check_kinds(table, {"processors": int, "start_s": float, "duration_s": float})
    start_s = float(table["start_s"])
    return Outage(table["processors"], start_s, start_s + table["duration_s"])


def _reservation(table: dict[str, Any]) -> AdvanceReservation:
    kinds = {"name": str, "user": str, "processors": int, "start_s": float, "duration_s": float}
    _check_kinds(table, kinds, optional={"user"})
    start_s = float(table["start_s"])
    return AdvanceReservation(
        table["name"],
        table["processors"],
        start_s,
        start_s + table["duration_s"],
        table.get("user", ""),
    )


def _check_kinds(
    table: dict[str, Any], kinds: dict[str, type], optional: AbstractSet[str] = frozenset()
) -> None:
    """ValueError unless the table has these keys, each with a value of its kind, 0 or more."""
    for key, value in table.items():
        wanted = kinds.get(key)
        if wanted is None:
            raise ValueError(f"unknown key {key!r}; {known_words(key, kinds)}")
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise ValueError(f"{key} = {value!r}: not of the right kind")
        if isinstance(value, int | float) and not 0 <= value < float("inf"):
            raise ValueError(f"{key} = {value!r}: a finite number from 0 on")
    missing = kinds.keys() - optional - table.keys()
    if missing:
        raise ValueError(f"{min(missing)} is missing")


def _job(table: dict[str, Any], number: int) -> ListedJob:
    _check_types(table)
    kind = JobKind(table.get("kind", "rigid"))
    if kind is JobKind.WORKERS:
        return _crew(table, number)
    if "work_s" in table:
        raise ValueError('work_s: for jobs of kind = "workers"')
    if "profile" in table:
        table = _with_sizes_of_profile(table, kind)
    elif "remap_s" in table:
        raise ValueError("remap_s: for jobs with a profile")
    listed = _sizes(table)
    sizes = sorted({grid.size for grid in listed})
    if kind is JobKind.RIGID and len(sizes) > 1:
        raise ValueError('a rigid job has one size; give kind = "malleable" or "moldable"')
    start = table.get("processors", sizes[0])
    chain, others = grids(listed)
    if start not in sizes:
        raise ValueError(f"processors = {start} is not among the legal sizes {sizes}")
    profile = tuple((duration_s, size) for duration_s, size in table.get("profile", ()))
    if profile:
        make, run_s, known = _profiled(table, profile)
    elif kind is JobKind.EVOLVING:
        make, run_s, known = _evolving(table, start)
    else:
        make, run_s, known = _application(table, (*chain, *others), start)
    spec = JobSpec(
        **_common(table, number),
        kind=kind,
        initial=next(grid for grid in chain if grid.size == start),
        configurations=chain,
        other_grids=others,
        estimate_s=table.get("estimate_s", run_s),
        reservation=table.get("reservation", ""),
        application=table.get("application", ""),
        scalability=known,
        profile=profile,
    )
    spec.validate()
    after, after_any = (_numbers(table, name) for name in ("after", "after_any"))
    submit_s = float(table.get("submit_s", 0.0))
    return ListedJob(submit_s, spec, make, number, after, after_any, run_s)


def _common(table: dict[str, Any], number: int) -> dict[str, Any]:
    """Fields of the description that jobs of all kinds have."""
    return {
        "name": table.get("name", f"job {number}"),
        "walltime_s": table.get("walltime_s"),
        "user": table.get("user", ""),
        "group": table.get("group", ""),
        "account": table.get("account", ""),
        "job_class": table.get("class", ""),
        "qos": table.get("qos", ""),
        "priority": table.get("priority", 0),
        "needs": node_tables.needs(table),
    }


def _crew(table: dict[str, Any], number: int) -> ListedJob:
    """A job of workers."""
    allowed = {"work_s", "min", "max", "submit_s", "walltime_s", "priority", "after", "after_any"}
    allowed |= _TEXTS - {"reservation", "application"} | node_tables.KEYS
    if more := table.keys() - allowed:
        raise ValueError(f"{', '.join(sorted(more))}: not for a job of workers")
    if not table.keys() >= {"work_s", "max"}:
        raise ValueError("a job of workers has max, and work_s, its processor-seconds")
    sizes, work_s = sizes_between(table.get("min", 0), table["max"]), float(table["work_s"])
    spec = JobSpec(
        **_common(table, number),
        kind=JobKind.WORKERS,
        initial=sizes[0],
        configurations=sizes,
        workers=Workers(grace_s=0.0),
    )
    spec.validate()
    after, after_any = (_numbers(table, name) for name in ("after", "after_any"))
    submit_s = float(table.get("submit_s", 0.0))
    return ListedJob(submit_s, spec, lambda: Crew(work_s), number, after, after_any)


def _numbers(table: dict[str, Any], name: str) -> tuple[int, ...]:
    """Jobs by their place in the file."""
    given = table.get(name, [])
    if not isinstance(given, list) or not all(type(n) is int and n >= 1 for n in given):
        raise ValueError(f"{name} = {given!r}: a list of jobs, by their place from 1 on")
    return tuple(dict.fromkeys(given))


def _check_types(table: dict[str, Any]) -> None:
    for key, value in table.items():
        if key not in _KNOWN:
            raise ValueError(f"unknown key {key!r}; {known_words(key, sorted(_KNOWN))}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _NUMBERS and not (number and 0 <= value < float("inf")):
            raise ValueError(f"{key} = {value!r}: a number from 0 is needed")
        if key in _WHOLE and not (number and isinstance(value, int)):
            raise ValueError(f"{key} = {value!r}: a whole number is needed")
        if key in _TEXTS and not isinstance(value, str):
            raise ValueError(f"{key} = {value!r}: a text is needed")


def _sizes(table: dict[str, Any]) -> list[Configuration]:
    """The legal sizes as grids, as they are listed."""
    if "sizes" in table and ("min" in table or "max" in table):
        raise ValueError("give either sizes or min and max")
    if "sizes" in table:
        sizes = table["sizes"]
        if not isinstance(sizes, list) or not all(
            type(s) is str or (type(s) is int and s >= 1) for s in sizes
        ):
            raise ValueError(
                f'sizes = {sizes!r}: a list of whole numbers from 1, or grids as "2x4", is needed'
            )
    elif "max" in table:
        if table["max"] - table.get("min", 1) >= MOST_SIZES:
            raise ValueError(f"max = {table['max']}: a job has at most {MOST_SIZES} sizes")
        sizes = list(range(max(1, table.get("min", 1)), table["max"] + 1))
    else:
        sizes = [table.get("processors", 1)]
    if not sizes or (type(sizes[0]) is int and sizes[0] < 1):
        raise ValueError("a job needs at least one processor")
    return [parsed(word) for word in sizes]


def _with_sizes_of_profile(table: dict[str, Any], kind: JobKind) -> dict[str, Any]:
    """A job with a profile: its sizes follow from that."""
    if kind is not JobKind.EVOLVING:
        raise ValueError('a profile is for a job of kind = "evolving"')
    steps = table["profile"]
    pairs = isinstance(steps, list) and all(isinstance(s, list) and len(s) == 2 for s in steps)
    if not pairs or not steps or not all(type(number) is int for s in steps for number in s):
        raise ValueError("profile is a list of [seconds, processors], in whole numbers")
    allowed = {"profile", "remap_s", "redistribution_s", "submit_s", "walltime_s", "priority"}
    allowed |= {"after", "after_any"}
    if more := table.keys() - allowed - _TEXTS:
        raise ValueError(f"{', '.join(sorted(more))}: not for a job with a profile, which sets it")
    EvolutionProfile(tuple((duration_s, size) for duration_s, size in steps))
    sizes = [size for _, size in steps]
    return {**table, "sizes": sizes, "processors": sizes[0]}


def _profiled(
    table: dict[str, Any], profile: tuple[tuple[int, int], ...]
) -> tuple[Callable[[], Application], float, Scalability | None]:
    """See `_application`: of a job whose evolution is known."""
    remap_s = float(table.get("remap_s", 0.0))
    cost_s = float(table.get("redistribution_s", 0.0))
    run_s = float(sum(duration_s for duration_s, _ in profile))
    return lambda: ProfiledApplication(profile, remap_s, cost_s), run_s, None


def _evolving(
    table: dict[str, Any], start: int
) -> tuple[Callable[[], Application], float, Scalability | None]:
    """See `_application`: of a job that asks for processors."""
    given, more = table.get("ask_at_s"), table.get("more", 0)
    asks: list[Any] = given if isinstance(given, list) else []
    times = [float(t) for t in asks if type(t) in (int, float) and 0 <= t < float("inf")]
    if not times or len(times) != len(asks) or times != sorted(times):
        raise ValueError("an evolving job has ask_at_s: a list of seconds after its start")
    if more < 1 or "run_s" not in table or {"times_s", "iterations", "rho"} & table.keys():
        raise ValueError("an evolving job has run_s and more, at least 1; no iterations, no rho")
    run_s = float(table["run_s"])
    granted_s = float(table.get("granted_s", run_s * start / (start + more)))
    timeout_s = float(table.get("timeout_s", 0.0))
    asks_s = tuple(times)
    return lambda: Evolving(run_s, granted_s, asks_s, more, timeout_s=timeout_s), run_s, None


def _application(
    table: dict[str, Any], legal: Sequence[Configuration], start: int
) -> tuple[Callable[[], Application], float, Scalability | None]:
    """What makes the application, its run time on the starting size, and its scalability.

    `legal`: all grids that the job may run on, of each size the first one first.
    """
    if asking := _ASKING & table.keys():
        raise ValueError(f"{', '.join(sorted(asking))}: for jobs of kind evolving")
    cost_s = float(table.get("redistribution_s", 0.0))
    if "times_s" in table:
        if "run_s" in table or "rho" in table or "iterations" not in table:
            raise ValueError("times_s goes with iterations, and without run_s and rho")
        times = _times(table["times_s"], legal)
        turns = _whole_iterations(table["iterations"])

        def measured() -> Application:
            return Iterating(turns, times.__getitem__, lambda _before, _after: cost_s)

        first = {grid.size: times[grid] for grid in reversed(legal)}
        return measured, turns * first[start], Scalability.fitted(first, start)
    if "run_s" not in table:
        raise ValueError("how long does it run? give run_s, or iterations and times_s")
    run_s = float(table["run_s"])
    if len(legal) == 1:
        return lambda: Rigid(run_s), run_s, None
    known = Scalability(start, float(table.get("rho", 0.0)))
    turns = _whole_iterations(table.get("iterations", DEFAULT_ITERATIONS))

    def modelled() -> Application:
        return Iterating(
            turns, lambda at: run_s / turns * known.ratio(at.size), lambda _before, _after: cost_s
        )

    return modelled, run_s, known


def _whole_iterations(iterations: int) -> int:
    if not 1 <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"iterations = {iterations}: from 1 to {MOST_ITERATIONS}")
    return iterations


def _times(given: object, legal: Sequence[Configuration]) -> dict[Configuration, float]:
    """By grid: its own time, else that of its size."""
    if not isinstance(given, dict):
        raise InvalidSpec("times_s gives seconds by size: { 2 = 100, 4 = 53 }")
    of_size: dict[int, float] = {}
    of_grid: dict[Configuration, float] = {}
    for size, seconds in given.items():
        positive = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not positive or not 0 <= seconds < float("inf"):
            raise ValueError(f"times_s: {size} = {seconds!r} is not seconds by size")
        if size.isdecimal():
            of_size[int(size)] = float(seconds)
        else:
            of_grid[parsed(size)] = float(seconds)
    if unknown := of_grid.keys() - set(legal):
        raise ValueError(f"times_s: {min(unknown)} is not among the grids of the sizes")
    missing = [
        str(grid) if of_grid else grid.size
        for grid in legal
        if grid not in of_grid and grid.size not in of_size
    ]
    if missing:
        raise ValueError(f"times_s has no time for {missing}")
    return {g: of_grid[g] if g in of_grid else of_size[g.size] for g in legal}
