"""What years cost: checksums of the journal, and the start of a server after a million jobs.

    python -m benchmarks.years seals            events a second with and without checksums
    python -m benchmarks.years start --jobs N   a journal of N ended jobs: size, time of a start

Ratios of one run, as everywhere here. `start` writes the journal as a server does (several minutes
for a million jobs) into a folder of its own and removes it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks._load_limits import commits
from dq_server.live import seals
from dq_server.live.journal import Journal

ROUNDS = 9


@contextmanager
def without_seals() -> Iterator[None]:
    """A journal as it was: no checksums, no note."""
    with (
        mock.patch.object(seals, "chained", lambda *_: seals.START),
        mock.patch.object(seals.Note, "committed", lambda *_, **__: None),
    ):
        yield


def seal_costs() -> None:
    """Rounds with and without, in turn; the median of the ratios of neighbours."""
    ratios, fastest = [], 0.0
    commits(Journal)  # the first one pays for the disk's caches
    for _ in range(ROUNDS):
        with without_seals():
            bare = commits(Journal)
        sealed = commits(Journal)
        ratios.append(bare / sealed)
        fastest = max(fastest, sealed)
    print(
        f"append and commit with checksums takes {statistics.median(ratios):.3f} times as long"
        f" as without ({min(ratios):.3f} to {max(ratios):.3f}); {fastest:,.0f} events/s"
    )


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.years", description=__doc__)
    parser.add_argument("what", choices=["seals"])
    options = parser.parse_args()
    if options.what == "seals":
        seal_costs()


if __name__ == "__main__":
    main()
