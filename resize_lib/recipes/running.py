"""The program's process: its start, what it writes, and its stop."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dq_client.base.recipes.command import ProgramStart
from dq_client.base.recipes.recipe import ERRORS, OUTPUT, Recipe
from resize_lib.recipes.progress import Counter, Lines, Tail

LOOK_S = 0.05
ENDS_WITHIN_S = 2.0  # after SIGTERM, before SIGKILL
READ_BYTES = 1 << 16
# Of the steward's environment: what is DQ's, or the process manager's of the ranks.
SECRETS = ("DQ_JOB_KEY", "DQ_COPY_KEY", "DQ_LINK")
OF_RANKS = ("PMI_", "DQ_RECIPE")


def environment(recipe: Recipe, environ: Mapping[str, str]) -> dict[str, str]:
    """The program's: without the job's secrets, and without PMI where it has its own launcher."""
    left_out = SECRETS if recipe.by_ranks else (*SECRETS, *OF_RANKS)
    kept = {name: value for name, value in environ.items() if not name.startswith(left_out)}
    return kept | recipe.launch.env


class Running:
    """One start of the program, which begins at once. OSError if it cannot.

    counter    its progress
    is_done    it has written what a complete run writes at its end
    has_read   it has written that it has read its checkpoint
    asked_s    when it was asked to stop, by time.monotonic; None: it was not
    """

    def __init__(self, recipe: Recipe, start: ProgramStart, cwd: Path, *, goes_on: bool) -> None:
        self._recipe, self._start = recipe, start
        self.counter = Counter(recipe.progress.pattern, counts=recipe.progress.counts)
        self._done = Counter(recipe.done, counts=True) if recipe.done else None
        says = (recipe.go_on if goes_on else recipe.start).says
        self._says = Counter(says, counts=True) if says else None
        self.asked_s: float | None = None
        where = recipe.progress.where
        self._tail = None if where in (OUTPUT, ERRORS) else Tail(start.places[where])
        if start.stop_file is not None:
            start.stop_file.unlink(missing_ok=True)
        passed = [int(os.environ["PMI_FD"])] if recipe.by_ranks and "PMI_FD" in os.environ else []
        self._process = subprocess.Popen(
            start.words,
            cwd=cwd,
            env=environment(recipe, os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
        )
        for fd in passed:  # the keeper is to see the end of the program there
            os.close(fd)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._streams = {
            self._process.stdout.fileno(): (1, where == OUTPUT, Lines()),
            self._process.stderr.fileno(): (2, where == ERRORS, Lines()),
        }
        self._file_lines = Lines()

    @property
    def is_done(self) -> bool:
        """See the class; True if the recipe does not say what is written."""
        return self._done is None or self._done.last is not None

    @property
    def has_read(self) -> bool:
        """See the class; True if the recipe does not say what is written."""
        return self._says is None or self._says.last is not None

    def look(self) -> bool:
        """Pass on what it writes, waiting a little for it; whether it has made progress."""
        moved = False
        ready = select.select(list(self._streams), [], [], LOOK_S)[0] if self._streams else []
        if not self._streams:
            time.sleep(LOOK_S)
        for fd in ready:
            data = os.read(fd, READ_BYTES)
            to, counts, lines = self._streams[fd]
            if not data:
                del self._streams[fd]
            _write(to, data)
            moved |= self._take(lines.of(data), counts=counts)
        if self._tail is not None:
            moved |= self._take(self._file_lines.of(self._tail.read()), counts=True)
        return moved

    def _take(self, lines: list[str], *, counts: bool) -> bool:
        moved = False
        for line in lines:
            moved |= counts and self.counter.take(line)
            for words in (self._done, self._says):
                if words is not None:
                    words.take(line)
        return moved

    def ended(self) -> int | None:
        """Its exit code, negative for a signal, once it has ended and all output was passed on."""
        code = self._process.poll()
        if code is None:
            return None
        # A process that it has left behind may hold the pipe for ever: only what is there.
        until_s = time.monotonic() + ENDS_WITHIN_S
        while self._streams and time.monotonic() < until_s:
            if not select.select(list(self._streams), [], [], 0)[0]:
                break
            self.look()
        self.look()
        return code

    def ask_to_stop(self) -> None:
        """Have it write its checkpoint and end."""
        self.asked_s = time.monotonic()
        stop = self._recipe.stop
        if self._start.stop_file is not None:
            self._start.stop_file.touch()
        elif stop.signal:
            number = signal.Signals[f"SIG{stop.signal.removeprefix('SIG')}"]
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def is_overdue(self) -> bool:
        """Whether it has not stopped in the time that the recipe gives it."""
        stop = self._recipe.stop
        patience_s = stop.within_s + (stop.slice_s if stop.words else 0.0)
        return self.asked_s is not None and time.monotonic() > self.asked_s + patience_s

    def kill(self) -> None:
        """End it: its launcher is given the time to end what it has started."""
        self._process.terminate()
        until_s = time.monotonic() + ENDS_WITHIN_S
        while self._process.poll() is None and time.monotonic() < until_s:
            self.look()
        self._process.kill()
        self._process.wait()

    def clean(self) -> None:
        """Remove what was made for this start."""
        made = [*self._start.files]
        if self._start.stop_file is not None:
            made.append(self._start.stop_file)
        for path in made:
            path.unlink(missing_ok=True)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
