"""Draw a sample, try every mutant, print what survived."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.mutants.mutations import ROOT, Mutant, sample
from harness.mutants.trial import Trial, Verdict, preload

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
KILLED_LEAST = 0.9


@dataclass(frozen=True, slots=True)
class Group:
    """What is mutated and the tests to run against it (globs), and its share of the sample.

    copied: the tests start programs, which have to find the mutant, too (trial.py).
    """

    files: tuple[str, ...]
    tests: tuple[str, ...]
    share: float
    copied: bool = False

    def paths(self) -> list[Path]:
        """The files."""
        return [path for glob in self.files for path in matching(glob)]

    def arguments(self) -> list[str]:
        """The tests as pytest is told them."""
        split = [test.partition("::") for test in self.tests]
        return [f"{path}{sep}{name}" for glob, sep, name in split for path in matching(glob)]


def matching(glob: str) -> list[Path]:
    """Files or folders of the repository; there must be some, or a group has silently died."""
    found = sorted(ROOT.glob(glob))
    assert found, f"nothing matches {glob}: was it moved?"
    return found


# The quickest tests first: most mutants die in the first seconds.
GROUPS = {
    "core": Group(
        ("dq_server/core/**/*.py",),
        (
            "tests/core",
            "tests/sim",
            "tests/dst/test_whole.py::test_every_life_is_right",
        ),
        0.45,
    ),
    "live": Group(
        ("dq_server/live/**/journal.py", "dq_server/live/**/access.py"),
        (
            "tests/live/test_journal*.py",
            "tests/live/test_access*.py",
            "tests/live/test_damage.py",
        ),
        0.1,
    ),
    "plan": Group(
        ("resize_lib/**/plan.py", "resize_lib/**/runs.py"),
        ("tests/plan",),
        0.05,
    ),
    "agent": Group(
        (
            *(f"dq_client/node/agent/{name}.py" for name in ("own_ranks", "local_start", "copies")),
            "dq_client/node/agent/vacancies.py",
            *(f"dq_server/live/orders/{name}.py" for name in ("dispatch", "job_ranks")),
            "dq_server/live/orders/reconciliation.py",
        ),
        (
            *(f"tests/client/test_{name}.py" for name in ("ends", "kept_copies", "private")),
            "tests/client/test_agent_*.py",
            "tests/live/test_own_ranks.py",
            "tests/live/test_own_ranks_growth.py",
            "tests/live/test_ends_and_copies.py",
            "tests/live/test_leaving_nodes.py",
            "tests/live/test_background_heard.py",
            "tests/dst/test_whole.py::test_every_life_is_right",
        ),
        0.15,
    ),
    "keeper": Group(
        tuple(
            f"dq_client/node/ranks/{name}.py"
            for name in ("keeper", "ends", "output", "world", "worlds", "loss", "exchange")
        ),
        (
            *(f"tests/client/test_{name}.py" for name in ("ends", "lost_output", "rank_marks")),
            *(f"tests/client/test_{name}.py" for name in ("keeper*", "exchange", "opened")),
            "tests/client/test_ranks_*.py",
            "tests/mpi/test_keeper.py",
        ),
        0.1,
        copied=True,
    ),
    "resize": Group(
        ("resize_lib/resize.py", "resize_lib/remap_point.py"),
        (
            "tests/plan/test_crowded_growth.py",
            "tests/plan/test_remap_*.py",
            "tests/plan/test_resize_steps.py",
            "tests/mpi/test_session_resizes.py",
        ),
        0.05,
        copied=True,
    ),
    "protection": Group(
        ("resize_lib/protection/*.py",),
        ("tests/plan/test_prot*.py", "tests/plan/test_copy_verdict.py"),
        0.1,
    ),
}  # fmt: skip


def known_as_equivalent() -> set[tuple[str, str]]:
    """Changes that no test can notice, each with its reason in the file."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    assert all(entry["why"] for entry in listed)
    return {(entry["before"], entry["after"]) for entry in listed}


def verdicts(mutants: Sequence[Mutant], group: Group, jobs: int, folder: Path) -> Iterator[Verdict]:
    """Try all, `jobs` at a time, each with five times the processor time of the right code."""
    (right,) = _tried([None], group, 1, folder, 3600.0)
    assert not right.killed, f"the tests fail without a mutant: {right.how}"
    print(f"  the code as it is: {right.cpu_s:.1f} s of processor time", flush=True)
    yield from _tried(mutants, group, jobs, folder, 5 * right.cpu_s + 10)


def _tried(
    mutants: Sequence[Mutant | None],
    group: Group,
    jobs: int,
    folder: Path,
    cpu_limit_s: float,
) -> Iterator[Verdict]:
    running: list[Trial] = []
    for number, mutant in enumerate(mutants):
        while len(running) == jobs:
            yield from _ended(running)
        files = [str(path.relative_to(ROOT)) for path in group.paths()]
        log, tests = folder / f"{number}.log", group.arguments()
        running.append(Trial(mutant, files, tests, log, cpu_limit_s, copied=group.copied))
    while running:
        yield from _ended(running)


def _ended(running: list[Trial]) -> Iterator[Verdict]:
    time.sleep(0.02)
    for trial in list(running):
        if (verdict := trial.verdict()) is not None:
            running.remove(trial)
            yield verdict


def tell(verdict: Verdict, equivalent: set[tuple[str, str]]) -> None:
    """A line, and the change if nobody noticed it."""
    assert verdict.mutant is not None
    what = "killed  " if verdict.killed else "SURVIVED"
    print(f"  {what} {verdict.cpu_s:6.1f} s  {verdict.mutant.path}  {verdict.how}", flush=True)
    if not verdict.killed:
        known = " (equivalent)" if verdict.mutant.change() in equivalent else ""
        print(textwrap.indent(verdict.mutant.diff() + known, "      "), flush=True)


def report(found: Sequence[Verdict], equivalent: set[tuple[str, str]]) -> int:
    """Print the shares; the exit code."""
    alive = [v.mutant for v in found if not v.killed and v.mutant is not None]
    unknown = [mutant for mutant in alive if mutant.change() not in equivalent]
    killed = len(found) - len(alive)
    print(
        f"\n{len(found)} mutants: {killed} killed ({killed / len(found):.0%}),"
        f" {len(alive) - len(unknown)} survived as equivalent, {len(unknown)} unexplained;"
        f" {sum(v.cpu_s for v in found):.0f} s of processor time"
    )
    return int(bool(unknown) or killed < KILLED_LEAST * len(found))


def main() -> int:
    """Try a sample of every group."""
    parser = argparse.ArgumentParser(prog="harness.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", choices=sorted(GROUPS), action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the mutants, try none")
    options = parser.parse_args()
    os.chdir(ROOT)
    preload()
    found, equivalent = list[Verdict](), known_as_equivalent()
    with tempfile.TemporaryDirectory(prefix="dq-mutants-") as folder:
        for name in options.group or GROUPS:
            group = GROUPS[name]
            share = 1.0 if options.group else group.share
            count = max(1, round(share * options.sample))
            mutants = sample(group.paths(), count, random.Random(options.seed))
            print(f"{name}: {len(mutants)} mutants", flush=True)
            if options.list:
                print("\n".join(mutant.diff() for mutant in mutants))
                continue
            place = Path(folder) / name
            place.mkdir()
            for verdict in verdicts(mutants, group, options.jobs, place):
                found.append(verdict)
                tell(verdict, equivalent)
    return report(found, equivalent) if found else 0


if __name__ == "__main__":
    sys.exit(main())
