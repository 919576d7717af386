"""What years cost: checksums of the journal, and the start of a server after a million jobs.

    python -m benchmarks.years seals            events a second with and without checksums
    python -m benchmarks.years start --jobs N   a journal of N ended jobs: size, time of a start

`start` makes the journal in a folder of its own and removes it: the last 25,000 jobs live through
the scheduler, of those before there is what a server keeps of them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks._load_limits import commits
from benchmarks._years_journal import Years
from dq_server.live.store import checksums, snapshot
from dq_server.live.store.journal import Journal
from dq_server.live.store.recovery import Recovered, recovered

ROUNDS = 9
STARTS = 3


@contextmanager
def without_seals() -> Iterator[None]:
    """A journal as it was: no checksums, no note."""
    with (
        mock.patch.object(checksums, "chained", lambda *_: checksums.START),
        mock.patch.object(checksums.ChecksumFile, "committed", lambda *_, **__: None),
    ):
        yield


def seal_costs() -> None:
    """Rounds with and without, in turn: the medians of the ratios of neighbours."""
    wall, cpu = [], []
    commits(Journal)  # the first one pays for the disk's caches
    for _ in range(ROUNDS):
        with without_seals():
            begin = time.process_time()
            bare = commits(Journal)
            bare_s = time.process_time() - begin
        begin = time.process_time()
        wall.append(bare / commits(Journal))
        cpu.append((time.process_time() - begin) / bare_s)
    print(
        f"append and commit with checksums: {statistics.median(wall):.2f} times the time of those"
        f" without ({min(wall):.2f} to {max(wall):.2f}), {statistics.median(cpu):.2f} times the CPU"
    )


def start(jobs: int) -> None:
    """How large the journal is, and how long until its state is there."""
    with tempfile.TemporaryDirectory(prefix="dq-years-") as root:
        path = Path(root) / "journal.sqlite"
        years = Years(path, jobs)
        years.kill()
        size = sum(file.stat().st_size for file in Path(root).iterdir())
        print(f"{jobs:,} ended jobs: {size / 1e6:,.0f} MB, {size / jobs:,.0f} bytes a job")
        for _ in range(STARTS):
            found = _started(path, "after a kill")
        journal = Journal(path)
        journal.save_snapshot(found.seq, snapshot.encode(found.scheduler, found.last_s))
        journal.close()
        _started(path, "after a stop")


def _started(path: Path, when: str) -> Recovered:
    gc.disable()  # as a server does while it starts
    begin, begin_cpu = time.monotonic(), time.process_time()
    journal = Journal(path)
    found = recovered(journal)
    took_s, cpu_s = time.monotonic() - begin, time.process_time() - begin_cpu
    gc.enable()
    journal.close()
    events = found.seq - found.kept
    print(f"{when}: {took_s:.2f} s ({cpu_s:.2f} s of CPU), {events} events handled again")
    return found


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.years", description=__doc__)
    parser.add_argument("what", choices=["seals", "start"])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.what == "seals":
        seal_costs()
    else:
        start(options.jobs)


if __name__ == "__main__":
    main()
