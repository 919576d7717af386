"""How far a simulation is, on a terminal, where it takes longer than people wait without a word.

A thread looks at the simulation now and then, so that its loop need not know.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AFTER_S = 2.0
EVERY_S = 0.25


@contextmanager
def progress(title: str, total: int, done: Callable[[], int], what: str = "jobs") -> Iterator[None]:
    """Within, a bar on a terminal's standard error after two seconds: `done()` of `total`."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(title, total, done, what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(
    title: str, total: int, done: Callable[[], int], what: str, ended: threading.Event
) -> None:
    if ended.wait(AFTER_S):
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TextColumn(what), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        while not ended.wait(EVERY_S):
            bar.update(task, completed=done())
