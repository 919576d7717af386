"""What the scheduler decides, as digests: recorded before a change of its structure, equal after.

Three sources: seeded lives of the whole (tests/dst), simulations of a log under every policy, and
journals whose events are handled again. A digest covers all actions, with codes and figures of
their reasons; words are left out, so that a sentence may be written better. The test compares few
of each. In the long form, which takes some minutes, before and after a change:

    python -m tests.decisions.digests --seeds 2000 --log LOG.swf.gz > before.json
    python -m tests.decisions.digests --seeds 2000 --log LOG.swf.gz --compare before.json

After a change of behaviour on purpose: `python -m tests.decisions.digests --record`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dq_server.core.model.actions import Action
from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.events import Event
from dq_server.core.policies.registry import SETS
from dq_server.core.recorded import Following
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import named_config
from dq_server.live.store.journal import actions_of
from dq_server.sim.engine import Simulation
from dq_server.sim.journal import read_journal
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.output import Run, csv_lines
from dq_server.sim.swf import processors_of, read_swf
from dq_server.sim.workload import RigidWorkload
from harness.generators.lublin import lublin
from tests.dst.world import World

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
JOURNALS = HERE.parent / "live" / "journals"
SEEDS, CHUNK = 50, 50  # of the short form, and what one digest covers
SHARES = (0.0, 0.6)  # of a log's jobs that are malleable
PROCESSORS = 64
# Sums of policies beside the sets, so that each start, order and grant policy is asked.
SUMS = (
    "easy+reshape",
    "conservative+reshape",
    "reservations+reshape-model",
    "easy+fairshare",
    "reservations+priority+reshape",
)
POLICIES = (*SETS, *SUMS)
# Without a malleable job the others decide as one of these.
OF_RIGID_JOBS = ("fcfs", "easy", "conservative", "dfs", "min-pool", "shortest-first")
# Machines differ in the last digits of a fit.
FIGURE = re.compile(rb"-?\d+\.\d+(?:e[-+]?\d+)?")

Digests = dict[str, str]


def _wordless(thing: Any) -> Any:
    """Without the texts that are sentences, and with sets in order."""
    if isinstance(thing, dict):
        return {key: _wordless(value) for key, value in thing.items() if not _is_words(value)}
    if isinstance(thing, list):
        return [_wordless(item) for item in thing]
    return thing


def _is_words(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def plain(thing: Any) -> bytes:
    """Actions as bytes: classes by name, figures with nine digits, no sentences."""
    built = msgspec.json.decode(msgspec.json.encode(thing, enc_hook=str))
    text = msgspec.json.encode(_wordless(built), order="deterministic")
    return FIGURE.sub(lambda found: b"%.9g" % float(found[0]), text)


def named(actions: list[Action]) -> list[Any]:
    return [[type(action).__name__, action] for action in actions]


@contextmanager
def listening() -> Iterator[Any]:
    """A digest of what any scheduler handles meanwhile."""
    handle, digest = Scheduler.handle, hashlib.sha256()

    def heard(scheduler: Scheduler, event: Event, now: float) -> list[Action]:
        digest.update(f"{type(event).__name__} {now:.9g}".encode())
        try:
            actions = handle(scheduler, event, now)
        except SchedulerError as e:
            digest.update(type(e).__name__.encode())
            raise
        digest.update(plain(named(actions)))
        return actions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scheduler, "handle", heard)
        yield digest


def lives(seeds: int) -> Digests:
    """Of the whole, CHUNK seeds each."""
    found = {}
    for first in range(0, seeds, CHUNK):
        with listening() as digest:
            for seed in range(first, min(first + CHUNK, seeds)):
                World(seed).run()
        found[f"lives {first}"] = digest.hexdigest()[:16]
    return found


def _csv(simulation: Simulation) -> str:
    digest = hashlib.sha256()
    for line in csv_lines([Run("policy", simulation.run(), {})]):
        digest.update(line.encode())
    return digest.hexdigest()[:16]


def simulations(log: Path | None, jobs: int = 400) -> Digests:
    """CSV of each policy: of a log, or of one that is drawn."""
    found = {}
    if log is None:
        rigid, processors = lublin(jobs, PROCESSORS, load=1.1, seed=7), PROCESSORS
    else:
        rigid, processors = RigidWorkload.from_log(read_swf(log)), processors_of(log) or PROCESSORS
    name = "drawn" if log is None else log.name
    for share in SHARES:
        workload = rigid
        if share:
            workload = MalleableWorkload(rigid, processors, Malleability(share), 1)  # type: ignore[assignment]
        for policy in POLICIES if share else OF_RIGID_JOBS:
            simulation = Simulation(workload, processors, named_config(policy))
            found[f"{name} {share} {policy}"] = _csv(simulation)
    return found


def journals() -> Digests:
    """Of what older versions have written, handled again."""
    found = {}
    folder = Path(tempfile.mkdtemp())
    try:
        for path in sorted(JOURNALS.glob("*.zip")):
            with zipfile.ZipFile(path) as packed:
                packed.extractall(folder / path.stem)
        for path in [*sorted(JOURNALS.glob("*.sqlite")), *sorted(folder.rglob("*.sqlite"))]:
            try:
                digest = _handled_again(path)
            except SchedulerError:  # by other rules it has come elsewhere, as in recovery
                digest = _followed(path)
            found[f"journal {path.parent.name} {path.stem}"] = digest
    finally:
        shutil.rmtree(folder)
    return found


def _handled_again(path: Path) -> str:
    """By the rules of today."""
    scheduler, digest = Scheduler(), hashlib.sha256()
    for entry in read_journal(path):
        digest.update(plain(named(scheduler.handle(entry.event, entry.time))))
    scheduler.state.check()
    return digest.hexdigest()[:16]


def _followed(path: Path) -> str:
    """With the recorded decisions in place of ours."""
    following, digest = Following(), hashlib.sha256()
    for entry in read_journal(path):
        recorded = actions_of(json.dumps(entry.actions))
        digest.update(plain(named(following.follow(entry.event, entry.time, recorded))))
    following.state.check()
    return digest.hexdigest()[:16]


def short() -> Digests:
    """What the test compares."""
    return lives(SEEDS) | simulations(None) | journals()


def differences(before: Digests, after: Digests) -> list[str]:
    """Names of what is not the same."""
    return sorted(name for name in before | after if before.get(name) != after.get(name))


def main() -> int:
    """Print, compare or record digests; exit code 1 if some differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="lives of the whole")
    parser.add_argument("--log", type=Path, help="simulate this log, too")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="name what differs from it")
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name}")
    o = parser.parse_args()
    if o.record:
        RECORDED.write_text(json.dumps(short(), indent=0) + "\n")
        return 0
    found = journals() | simulations(None) | lives(o.seeds)
    if o.log is not None:
        found |= simulations(o.log)
    if o.compare is None:
        print(json.dumps(found, indent=0))
        return 0
    wrong = differences(json.loads(o.compare.read_text()), found)
    print("\n".join([*wrong, f"{len(found) - len(wrong)} of {len(found)} digests are equal"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
