"""Ordinary programs under resizes: is each right, or refused with a line, or wrong without a word?

    python -m harness.ordinary                      # all of tests/live/ordinary, as a table
    python -m harness.ordinary --plain PROGRAM...   # first as plain MPI programs, on 1, 2, 3 ranks
    python -m harness.ordinary --seed 3 -n 2 PROGRAM...

Each program prints `sum X expected Y` (or `w X expected Y`) at its end, where Y does not depend on
what the ranks have in memory. A comment `# refused` marks the lines that a refusal may name.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from dq_client import client
from dq_client.base.launch import MPI_TUNING, ONE_THREAD
from dq_client.base.states import ENDED
from dq_client.node.mpiexec.command import find_mpiexec
from harness.commands import ROOT

PROGRAMS = ROOT / "tests" / "live" / "ordinary"
RESULT = re.compile(r"^(?:sum|w) (\S+) expected (\S+)$", re.MULTILINE)
TOLERANCE = 1e-9  # relative: sums over other ranks round otherwise
MARK = "# refused"
CONFIG = """\
[launch]
growth = "{growth}"

[scheduler]
resize = "drawn"

[scheduler.drawn]
seed = {seed}
every = 3
most = {most}
"""
SIZES = [1, 2, 3]
RESIZES = 10  # at most; a short program has fewer
JOBS_AT_ONCE = 4
PROCESSORS = 32  # those of ranks that leave become idle a moment later
LOOKS_EVERY_S = 0.2
PATIENCE_S = 180.0  # only a hang takes that long
# A busy machine takes its time to compare variables.
FOR_TESTS = {"DQ_WAIT_FOR_RANKS": "1", "DQ_CARRY_MS": "30000"}
NO_REFUSAL = "the last iteration is done"
MESSAGE_WIDTH = 150  # of a line of the table


class Outcome(Enum):
    """What became of a program that was resized."""

    RIGHT = "right"
    REFUSED = "refused"  # some resizes were; the job went on, and its result is right
    FAILED = "failed"
    WRONG = "WRONG"  # it ended as done, and the result is wrong or missing
    HANGS = "hangs"


@dataclass(frozen=True)
class Refusal:
    """A resize that was given up."""

    size: int
    next_size: int
    why: str


@dataclass(frozen=True)
class Run:
    """One program under the resizes of one seed.

    sizes     those that the job has had, in order
    refusals  the resizes that were given up
    reason    of a failure; else what the program printed last
    story     what `dq why` says, to find out more
    """

    program: Path
    outcome: Outcome
    sizes: list[int]
    refusals: list[Refusal]
    reason: str
    story: str

    @property
    def messages(self) -> list[str]:
        """The reasons of its refusals, or of its failure, each once."""
        if self.outcome is Outcome.FAILED:
            return [self.reason]
        return list(dict.fromkeys(refusal.why for refusal in self.refusals))

    @property
    def line(self) -> str:
        """The run as a line of the table."""
        sizes = "-".join(map(str, self.sizes))
        found = self.messages[0] if self.outcome is Outcome.REFUSED else self.reason
        short = found.replace(f"{self.program.parent}/", "")[:MESSAGE_WIDTH]
        name = f"{self.program.parent.name}/{self.program.stem}"
        return f"{name:32} {self.outcome.value:8} {sizes:21} {short}".rstrip()


def programs(kind: str) -> list[Path]:
    """The programs of a folder of tests/live/ordinary: "right", "scratch" or "refused"."""
    return sorted(path for path in (PROGRAMS / kind).glob("*.py") if path.name[0] != "_")


def marked_lines(program: Path) -> list[str]:
    """The places, FILE:LINE, that a refusal of a program may name; also in what it imports."""
    source = program.read_text()
    beside = [path for path in program.parent.glob("_*.py") if path.stem in source]
    return [
        f"{path.name}:{n}"
        for path in (program, *beside)
        for n, text in enumerate(path.read_text().splitlines(), 1)
        if MARK in text
    ]


def is_right(output: str) -> bool:
    """Whether the output of a program has its result, and the result is the expected one."""
    found = RESULT.findall(output)
    if len(found) != 1:
        return False
    if all(number.lstrip("-").isdigit() for number in found[0]):
        return bool(found[0][0] == found[0][1])
    got, expected = map(float, found[0])
    return abs(got - expected) <= TOLERANCE * abs(expected)


def plain_faults(program: Path, ranks: Iterable[int] = (1, 2, 3)) -> list[str]:
    """Run a program without a server; a line for each number of ranks where it is not right."""
    faults = []
    for count in ranks:
        launcher = [] if count == 1 else [find_mpiexec(), "-n", str(count)]
        with tempfile.TemporaryDirectory(prefix="dq") as folder:
            done = subprocess.run(
                [*launcher, sys.executable, program],
                env={**os.environ, **ONE_THREAD, **MPI_TUNING, "TMPDIR": folder},
                capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=folder,
            )  # fmt: skip
        if done.returncode or not is_right(done.stdout):
            faults.append(f"{program.name} on {count}: {done.stdout[-200:]} {done.stderr[-400:]}")
    return faults


def resized_runs(
    chosen: Sequence[Path],
    *,
    seed: int = 0,
    resizes: int = RESIZES,
    ranks: int = 1,
    env: dict[str, str] | None = None,
    growth: str = "join",
) -> Iterator[Run]:
    """Run programs, each resized so often, several at once on one cluster; in the order they end.

    ranks: at the start. env: variables for the jobs. The resizes depend on the seed and on the
    program's place among those chosen, on nothing else. growth: "join", or "restart" (docs/mpi.md)
    """
    with tempfile.TemporaryDirectory(prefix="dq") as folder:
        config = Path(folder, "config.toml")
        config.write_text(CONFIG.format(seed=seed, most=resizes, growth=growth))
        more = {**FOR_TESTS, "TMPDIR": folder, **(env or {})}
        with client.cluster(local=PROCESSORS, config=config) as cluster:
            waiting = deque(chosen)
            running: dict[Path, tuple[client.Job, float]] = {}
            while waiting or running:
                while waiting and len(running) < JOBS_AT_ONCE:
                    program = waiting.popleft()
                    job = cluster.submit(
                        [sys.executable, program], n=ranks, sizes=SIZES, env=more, chdir=folder
                    )
                    running[program] = job, time.monotonic() + PATIENCE_S
                for program, (job, until) in list(running.items()):
                    late = time.monotonic() > until
                    if job.state in ENDED or late:
                        yield _run(program, job, hangs=late)
                        del running[program]
                        if late:
                            job.kill()
                time.sleep(LOOKS_EVERY_S)


def _run(program: Path, job: client.Job, *, hangs: bool) -> Run:
    info, story = job.info, job.why()["story"]
    refusals = [
        Refusal(event["figures"]["size"], event["figures"]["next_size"], event["figures"]["why"])
        for event in story
        if event["code"] == "resize_aborted" and event["figures"]["why"] != NO_REFUSAL
    ]
    output = job.output()
    reason = output.strip().rpartition("\n")[2] or "no output"
    if hangs:
        outcome = Outcome.HANGS
    elif info["state"] != "done":
        outcome, reason = Outcome.FAILED, str(info["reason"])
    elif not is_right(output):
        outcome = Outcome.WRONG
    else:
        outcome = Outcome.REFUSED if refusals else Outcome.RIGHT
    sizes = [stay["processors"] for stay in info["sizes"]]
    told = "\n".join(f"  {event['what']}: {event['text']}" for event in story)
    return Run(program, outcome, sizes, refusals, reason, f"{told}\n{job.output('err')[-2000:]}")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", type=Path, help="default: all of the corpus")
    parser.add_argument("--plain", action="store_true", help="first without a server")
    parser.add_argument("--story", action="store_true", help="what `dq why` says, too")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other resizes")
    parser.add_argument("--resizes", type=int, default=RESIZES, help="of each, at most")
    parser.add_argument("--restart", action="store_true", help="resize by restart (docs/mpi.md)")
    parser.add_argument("-n", type=int, default=1, help="ranks at the start")
    args = parser.parse_args()
    every = [path for kind in ("right", "scratch", "refused") for path in programs(kind)]
    chosen = [path.absolute() for path in args.programs] or every
    if args.plain:
        for program in chosen:
            print(*plain_faults(program), sep="\n", end="")
    outcomes = []
    growth = "restart" if args.restart else "join"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster goes, too
    drawn = {"seed": args.seed, "resizes": args.resizes, "ranks": args.n}
    for run in resized_runs(chosen, **drawn, growth=growth):
        outcomes.append(run.outcome)
        print(run.line, flush=True)
        if args.story:
            print(run.story)
    print(", ".join(f"{outcomes.count(which)} {which.value}" for which in Outcome))
    sys.exit(Outcome.WRONG in outcomes or Outcome.HANGS in outcomes)


if __name__ == "__main__":
    main()
