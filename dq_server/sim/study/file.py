"""The file of a study, and the runs that it stands for. Everything is checked before the first run.

logs = ["site.swf.gz"]            # relative to the file's folder
nodes = 100                       # or one per log; default: what the log's header says; or
                                  # tables [[nodes]], by partition and queue: sim/node_sets.py
policies = ["easy", "mebf-spare"] # the first one is what the others are compared with
shares = [0.2, 0.6, 1.0]          # of the jobs, drawn by seed, that are malleable; or percent
seeds = 20                        # 0 .. 19; or a list of seeds

first_day = 0.0                   # of the log, since its first submission
days = 30.0                       # submissions of so many days; default: all
queues = ["short", 2]             # field 15: only jobs of these numbers, or names of the header
partitions = [1]                  # field 16, likewise
warm_up_days = 0.0                # submissions of the first days: simulated, not counted
too_large = "refuse"              # or "leave out": jobs that need more than `nodes`
enforce_estimates = false         # kill jobs that run longer than their estimate
dependencies = false              # honour fields 17 and 18
jobs = true                       # write jobs.csv.gz

[[reservation]]                   # processors out of use: maintenance, an outage that was planned
name = "maintenance"
processors = 100
start_s = 86_400                  # since the first submission of those simulated
duration_s = 28_800

[[outage]]                        # processors that fail, without notice: jobs on them start again
processors = 16
start_s = 200_000
duration_s = 3_600

[malleable]                       # how jobs become malleable: sim/malleable_settings.py
[scheduler]                       # and the other tables of a server's configuration
[[variant]]                       # each is a study of its own, under its `name`, with what it
name = "Amdahl"                   # changes of [malleable]; `scheduler`: settings of that table
model = "amdahl"
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, SchedulerError
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import check, configured, from_tables, named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError, unknown
from dq_server.sim.malleable import Malleability
from dq_server.sim.malleable_settings import read_malleability
from dq_server.sim.node_sets import NodeSet, Places, members, read_sets
from dq_server.sim.swf import SwfLog, only, processors_of, read_swf
from dq_server.sim.toml_workload import read_outages, read_reservations, read_tables, since
from dq_server.sim.workload import MOST_NODES, Outage, RigidWorkload, Workload

TABLES = ("scheduler", "dfs", "quotas")  # of a server's configuration
KEYS = ("logs", "nodes", "policies", "shares", "seeds", "first_day", "days", "queues",
        "partitions", "warm_up_days", "too_large", "enforce_estimates", "dependencies", "jobs",
        "reservation", "outage", "malleable", "variant", *TABLES)  # fmt: skip
MOST_RUNS = 1_000_000
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Source:
    """A log and how it is read.

    title  its name; the path as in the study's file, if another log has the same name
    queues, partitions  numbers or names of those whose jobs count; empty: all
    sets  nodes that only some queues' and partitions' jobs run on; empty: all jobs run on all
    """

    path: Path
    title: str
    nodes: int
    first_day: float = 0.0
    days: float = math.inf
    queues: tuple[int | str, ...] = ()
    partitions: tuple[int | str, ...] = ()
    warm_up_days: float = 0.0
    leave_out_large: bool = False
    enforce_estimates: bool = False
    dependencies: bool = False
    reservations: tuple[AdvanceReservation, ...] = ()
    outages: tuple[Outage, ...] = ()
    sets: tuple[NodeSet, ...] = ()

    def read(self) -> tuple[RigidWorkload, list[Places]]:
        """Its jobs, and the places of those of each of `sets`.

        Raises:
            WorkloadError: it is no log, has jobs that the machine is too small for, or of no set.
        """
        log = only(self._cut(read_swf(self.path)), self.queues, self.partitions)
        places = members(log, self.sets)
        nodes = np.full(len(log.fields), self.nodes)
        for these, node_set in zip(places, self.sets, strict=True):
            nodes[these] = node_set.processors
        large = log.processors() > nodes
        if large.any() and not self.leave_out_large:
            k = int((log.processors() * large).argmax())
            raise WorkloadError(
                f"{self.path}: job {log.column('job')[k]:.0f} needs {log.processors()[k]}"
                f" processors and nodes = {nodes[k]}: raise nodes, or leave out the"
                f' {large.sum()} jobs that do not fit with too_large = "leave out"'
            )
        if large.all():
            raise WorkloadError(f"{self.path}: no job in it fits on nodes = {nodes.max()}")
        if self.warm_up_days * DAY_S > log.column("submit_s")[-1] - log.column("submit_s")[0]:
            raise WorkloadError(
                f"{self.path}: no job is submitted after warm_up_days = {self.warm_up_days:g}"
            )
        jobs = RigidWorkload.from_log(
            log, enforce_estimates=self.enforce_estimates, dependencies=self.dependencies
        )
        try:
            self.simulation(jobs, configured())
        except SchedulerError as error:
            raise WorkloadError(f"{self.path}: [[reservation]]: {error}") from error
        except WorkloadError as error:
            raise WorkloadError(f"{self.path}: {error}") from error
        return jobs, places

    def simulation(self, jobs: Workload, config: SchedulerConfig) -> Simulation:
        """Return the simulation of its jobs, malleable or not, that has not begun."""
        first_s = jobs.submit_s[0]
        outages = [outage.since(first_s) for outage in self.outages]
        reserved = since(first_s, self.reservations)
        return Simulation(jobs, self.nodes, config, reservations=reserved, outages=outages)

    def _cut(self, log: SwfLog) -> SwfLog:
        submit_s = log.column("submit_s")
        if len(submit_s) == 0:
            raise WorkloadError(f"{self.path}: there is no job in it that can be simulated")
        from_s = submit_s[0] + self.first_day * DAY_S
        within = (submit_s >= from_s) & (submit_s < from_s + self.days * DAY_S)
        if not within.any():
            raise WorkloadError(
                f"{self.path}: no job is submitted in the {self.days:g} days from day"
                f" {self.first_day:g} on; the log has {(submit_s[-1] - submit_s[0]) / DAY_S:.1f}"
            )
        notes = dict(log.notes)
        if not within.all():
            notes["left out: not within first_day and days"] = int((~within).sum())
        return SwfLog(log.path, log.fields[within], notes)


@dataclass(frozen=True, slots=True)
class Variant:
    """Parameters that all policies are compared under. `name` is "" if it is the only one."""

    name: str
    how: Malleability
    base: SchedulerConfig


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run."""

    source: Source
    variant: Variant
    policy: str
    config: SchedulerConfig
    share: float
    seed: int

    @property
    def how(self) -> Malleability:
        """With the share of this run."""
        return replace(self.variant.how, fraction=self.share)

    def __str__(self) -> str:
        variant = f", {self.variant.name}" if self.variant.name else ""
        return f"{self.source.title}{variant}, {self.policy}, share {self.share}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Study:
    """A study as its file describes it.

    percent  the file gives the shares in percent; `shares` are fractions
    """

    path: Path
    sources: tuple[Source, ...]
    policies: tuple[str, ...]
    shares: tuple[float, ...]
    percent: bool
    seeds: tuple[int, ...]
    variants: tuple[Variant, ...]
    jobs: bool

    def __len__(self) -> int:
        """How many runs."""
        counts = (self.sources, self.variants, self.shares, self.policies, self.seeds)
        return math.prod(map(len, counts))

    def scenarios(self) -> Iterator[Scenario]:
        """All runs in the order of runs.csv."""
        for source in self.sources:
            for variant in self.variants:
                configs = {name: named_config(name, variant.base) for name in self.policies}
                for share in self.shares:
                    for policy, config in configs.items():
                        for seed in self.seeds:
                            yield Scenario(source, variant, policy, config, share, seed)


def read_study(path: Path) -> Study:
    """Read a study; WorkloadError, in one line that names file and key, if it makes no sense."""
    _, table = read_tables(path)
    for place in (str(path.absolute().parent), ""):  # policies of one's own may lie there
        if place not in sys.path:
            sys.path.append(place)
    try:
        return _study(path, table)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error


def _study(path: Path, table: Mapping[str, Any]) -> Study:
    for key in table:
        if key not in KEYS:
            raise WorkloadError(unknown("key", key, KEYS))
    study = Study(
        path,
        _sources(path.parent, table),
        _names(table, "policies"),
        *_shares(table),
        _seeds(table),
        _variants(table),
        _yes(table, "jobs", usual=True),
    )
    if len(study) > MOST_RUNS:
        raise WorkloadError(f"{len(study)} runs: at most {MOST_RUNS}")
    for variant in study.variants:
        for name in study.policies:
            _check_policy(name, variant)
    return study


def _sources(folder: Path, table: Mapping[str, Any]) -> tuple[Source, ...]:
    names = _names(table, "logs")
    given, sets = _nodes(table)
    each = given if isinstance(given, list) else [given] * len(names)
    if len(each) != len(names):
        raise WorkloadError(f"nodes = {given}: {len(names)} logs need one number, or one each")
    usual: dict[str, Any] = {
        "first_day": _number(table, "first_day", 0.0),
        "days": _number(table, "days", math.inf),
        "queues": _parts(table, "queues"),
        "partitions": _parts(table, "partitions"),
        "warm_up_days": _number(table, "warm_up_days", 0.0),
        "reservations": tuple(read_reservations(table.get("reservation", []))),
        "outages": tuple(read_outages(table.get("outage", []))),
        "leave_out_large": _choice(table, "too_large", ("refuse", "leave out")) == "leave out",
        "enforce_estimates": _yes(table, "enforce_estimates", usual=False),
        "dependencies": _yes(table, "dependencies", usual=False),
        "sets": sets,
    }
    if usual["outages"] and usual["dependencies"]:
        raise WorkloadError("dependencies = true: not with [[outage]]; leave one of them out")
    if sets and (usual["reservations"] or usual["outages"] or usual["dependencies"]):
        raise WorkloadError(
            "[[nodes]]: not with [[reservation]], [[outage]] or dependencies: give one number as"
            " nodes, or leave these out"
        )
    sources: list[Source] = []
    for name, nodes in zip(names, each, strict=True):
        path = folder / name
        if not name.endswith((".swf", ".swf.gz")):
            raise WorkloadError(f"logs: {name}: a log is a .swf or .swf.gz file")
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "no such file"
            raise WorkloadError(f"logs: {path}: {what}; paths are relative to the study's folder")
        nodes = processors_of(path) if nodes is None else nodes
        if nodes is None:
            raise WorkloadError(
                f"nodes: missing, and the header of {path} names neither MaxProcs nor MaxNodes:"
                " give the processors of the machine"
            )
        if type(nodes) is not int or not 1 <= nodes <= MOST_NODES:
            raise WorkloadError(f"nodes = {nodes!r}: a whole number, 1 to {MOST_NODES}")
        alike = sum(Path(other).name == path.name for other in names) > 1
        sources.append(Source(path, name if alike else path.name, nodes, **usual))
    return tuple(sources)


def _nodes(table: Mapping[str, Any]) -> tuple[Any, tuple[NodeSet, ...]]:
    """The processors as the file has them, unchecked; and the node sets, of which that is a sum."""
    given = table.get("nodes")
    if not isinstance(given, list) or not any(isinstance(one, dict) for one in given):
        return given, ()
    sets = read_sets(given, _parts)
    return [sum(one.processors for one in sets)] * len(table["logs"]), sets


def _variants(table: Mapping[str, Any]) -> tuple[Variant, ...]:
    how = _malleability(table.get("malleable", {}), Malleability(), "[malleable]")
    tables = {name: table[name] for name in TABLES if name in table}
    base = _base(tables)
    given = table.get("variant", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise WorkloadError("variant: write [[variant]], once for each")
    variants: list[Variant] = []
    for one in given:
        name = one.get("name")
        if not isinstance(name, str) or not name.strip():
            raise WorkloadError("[[variant]]: name is missing: a text, unique among the variants")
        if any(name == variant.name for variant in variants):
            raise WorkloadError(f"[[variant]]: two are named {name!r}")
        where = f"[[variant]] {name!r}"
        changes = {key: one[key] for key in one.keys() - {"name", "scheduler"}}
        its_base = base
        if "scheduler" in one:
            merged = {**tables.get("scheduler", {}), **_table(one["scheduler"], where)}
            its_base = _base({**tables, "scheduler": merged})
        variants.append(Variant(name, _malleability(changes, how, where), its_base))
    return tuple(variants) or (Variant("", how, base),)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WorkloadError(f"{where}: {value!r}: a table is needed")
    return value


def _malleability(table: Any, base: Malleability, where: str) -> Malleability:
    try:
        return read_malleability(_table(table, where), base)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error


def _base(tables: Mapping[str, Any]) -> SchedulerConfig:
    if "policy" in _table(tables.get("scheduler", {}), "[scheduler]"):
        raise WorkloadError("[scheduler] policy: a study names its policies in `policies`")
    try:
        return replace(from_tables(tables))  # without what checking has made: it goes to processes
    except ConfigError as error:
        raise WorkloadError(str(error)) from error


def _check_policy(name: str, variant: Variant) -> None:
    try:
        check(named_config(name, variant.base))
    except ConfigError as error:
        if f"unknown policy {name!r}" in str(error) and ":" not in name:
            raise WorkloadError(f"policies: {unknown('policy', name, SETS)}") from error
        raise WorkloadError(f"policies: {error}") from error


def _listed(table: Mapping[str, Any], key: str) -> list[Any]:
    if key not in table:
        raise WorkloadError(f"{key} is missing: give a list")
    found = table[key]
    if not isinstance(found, list) or not found:
        raise WorkloadError(f"{key} = {found!r}: a list with at least one member is needed")
    again = next((one for k, one in enumerate(found) if one in found[:k]), None)
    if again is not None:
        raise WorkloadError(f"{key}: {again!r} is named twice")
    return found


def _names(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _listed(table, key)
    wrong = next((one for one in found if not isinstance(one, str) or not one), None)
    if wrong is not None:
        raise WorkloadError(f"{key}: {wrong!r}: a text is needed")
    return tuple(found)


def _parts(table: Mapping[str, Any], key: str) -> tuple[int | str, ...]:
    found = _listed(table, key) if key in table else []
    for one in found:
        if type(one) not in (int, str):
            raise WorkloadError(f"{key}: {one!r}: a number, or a name of the log's header")
    return tuple(found)


def _shares(table: Mapping[str, Any]) -> tuple[tuple[float, ...], bool]:
    """The shares as fractions, and whether the file gives them in percent: one is above 1."""
    found = _listed(table, "shares")
    for share in found:
        if type(share) not in (int, float) or not 0 <= share <= 100:
            raise WorkloadError(
                f"shares: {share!r}: a share is a number from 0 to 1, or from 0 to 100 percent"
            )
    percent = max(found) > 1
    fraction = next((share for share in found if 0 < share < 1), None)
    if percent and fraction is not None:
        raise WorkloadError(
            f"shares = {found}: {fraction} may be a fraction, {max(found)} is percent: write all of"
            " them from 0 to 1, or all in whole percent"
        )
    return tuple(share / 100 if percent else float(share) for share in found), percent


def _seeds(table: Mapping[str, Any]) -> tuple[int, ...]:
    given = table.get("seeds")
    if type(given) is int and 1 <= given <= MOST_RUNS:
        return tuple(range(given))
    if not isinstance(given, list):
        said = "is missing" if given is None else f"= {given!r}"
        raise WorkloadError(f"seeds {said}: how many (at least 1), or a list of seeds")
    for seed in _listed(table, "seeds"):
        if type(seed) is not int or seed < 0:
            raise WorkloadError(f"seeds: {seed!r}: a seed is a whole number from 0 on")
    return tuple(given)


def _number(table: Mapping[str, Any], key: str, usual: float) -> float:
    value = table.get(key, usual)
    if type(value) not in (int, float) or math.isnan(value) or value < 0:
        raise WorkloadError(f"{key} = {value!r}: a number of days from 0 on")
    return float(value)


def _choice(table: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str:
    value = table.get(key, known[0])
    if value not in known:
        raise WorkloadError(f"{key} = {value!r}: one of {', '.join(map(repr, known))}")
    return str(value)


def _yes(table: Mapping[str, Any], key: str, *, usual: bool) -> bool:
    value = table.get(key, usual)
    if not isinstance(value, bool):
        raise WorkloadError(f"{key} = {value!r}: true or false")
    return value
