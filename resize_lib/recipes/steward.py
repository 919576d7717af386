"""The steward of a job with a recipe: starts, watches and stops the program, and reports to the
server what a session reports in other programs.

A start ends in one of these ways:

| The program | The steward's exit code | The server |
|---|---|---|
| ended well | 0, after WorkDone | done |
| stopped for a resize, checkpoint proven | 0, after RestartReady | starts it on the new size |
| stopped as its walltime ends | FAILED, after GaveUp | failed; `--go-on` begins there |
| did not stop as the recipe says | LOST | starts it again, from the last checkpoint |
| died by a signal | 128 + signal | the same |
| failed | its own | failed; or, right after a resize, back to the old size |
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base.errors import UsageError
from dq_client.base.recipes.command import ProgramStart, StartFacts, start_of
from dq_client.base.recipes.recipe import Recipe
from resize_lib.recipes.checkpoints import Checkpoints, Stamp, stamp_of
from resize_lib.recipes.running import Running
from resize_lib.server_link import ServerLink, say

LOST = 75  # EX_TEMPFAIL: start again from the last checkpoint (core/model/spec.py)
FAILED = 1
REPORT_S = 1.0  # between remap points at least: what is shorter is one with several iterations
STOP_S, STOP_SHARE = 5.0, 0.05  # before the end of its walltime, of what is left at the start
COPY_SHARE = 0.05  # of the time: what copies of checkpoints may take unless it is said how often
ITERATIONS_MAX = 1_000_000


def facts(places: Sequence[m.RankPlace] = ()) -> StartFacts:
    """What this start of the job is told by its environment; the same on all ranks but `hosts`."""
    hosts: dict[str, int] = {}
    for place in places:
        host = "localhost" if place.host == "local" else place.host
        hosts[host] = hosts.get(host, 0) + 1
    environ = os.environ
    every_s, steps = environ.get("DQ_PROTECT_SECONDS"), environ.get("DQ_PROTECT_POINTS")
    return StartFacts(
        job=int(environ["DQ_JOB_ID"]),
        start=int(environ["DQ_JOB_INSTANCE"]),
        ranks=int(environ["PMI_SIZE"]),
        hosts=",".join(f"{host}:{count}" for host, count in hosts.items()),
        every_s=float(every_s) if every_s else None,
        every_steps=int(steps) if steps else None,
    )


class Steward:
    """Of one start of the job."""

    def __init__(
        self, recipe: Recipe, argv: Sequence[str], cwd: Path, checkpoints: Checkpoints
    ) -> None:
        self._recipe, self._argv, self._cwd = recipe, argv, cwd
        self._kept = checkpoints
        self._resize_id = int(os.environ.get("DQ_RESTART", "0"))  # that this start carries out
        self._from_step: int | None = None  # of the checkpoint that this start goes on from
        self._verified = True
        self._link = ServerLink.from_environment()
        self._places: list[m.RankPlace] = []
        self._reports = True
        self._seq = 0
        self._answer: m.RemapAnswer | None = None  # a resize that the program is to stop for
        self._told: tuple[int, float] | None = None  # count and time of the last remap point
        self._stamp: Stamp | None = None  # of the checkpoint that is kept
        self._seen: tuple[Stamp, int] | None = None  # of a newer one, and the count at that time
        self._copied_s = self._copy_took_s = 0.0
        left_s = float(os.environ.get("DQ_RECIPE_LEFT_S", "inf"))
        patience_s = min(recipe.stop.within_s, max(STOP_S, left_s * STOP_SHARE))
        self._stop_s = time.monotonic() + left_s - patience_s  # for the end of its walltime
        self._over = False  # that has come

    def run(self) -> int:
        """Until the program, or this start of it, is over; the exit code."""
        try:
            while (code := self._once()) is None:
                pass
        except (UsageError, OSError) as e:
            return self._give_up(str(e))
        finally:
            self._link.close()
        return code

    def _connect(self) -> None:
        """Report to the server once; the program, which need not wait for that, runs already."""
        if self._places:
            return
        welcome = self._link.hello(int(os.environ["PMI_SIZE"]))
        if welcome is not None:
            self._places, self._reports = welcome.places, welcome.reports
            self._link.resizes_by_restart()

    # --- one start of the program ---------------------------------------------------------------

    def _once(self) -> int | None:
        """One start of the program; None: it has stopped only to be started again."""
        goes_on = bool(self._kept.proven.place)
        self._from_step = self._kept.proven.step if goes_on else None
        self._verified = not goes_on
        if any("{hosts}" in word for word in self._recipe.launch.command):
            self._connect()
        facts_ = facts(self._places)
        start = start_of(self._recipe, self._argv, self._cwd, facts_, goes_on=goes_on)
        for path, text in start.files.items():
            path.unlink(missing_ok=True)
            path.write_text(text)
        if goes_on:
            self._kept.restore(start.checkpoint)
        self._stamp, self._told = stamp_of(start.checkpoint), None
        self._copied_s = time.monotonic()
        running = Running(self._recipe, start, self._cwd, goes_on=goes_on)
        try:
            self._connect()
            while (code := running.ended()) is None:
                moved = running.look()
                if why := self._astray(running):
                    running.kill()
                    return self._give_up(why)
                if moved:
                    self._progress(running, start)
                if running.asked_s is None and time.monotonic() >= self._stop_s:
                    self._over = True
                    self._stop(running, start)
                if running.is_overdue():
                    running.kill()
                    return self._did_not_stop(
                        f"it did not end within {self._recipe.stop.within_s:g} s"
                    )
            if why := self._astray(running):
                return self._give_up(why)
        finally:
            running.clean()
        return self._ended(running, start, code)

    def _astray(self, running: Running) -> str:
        """Why it has not gone on from its checkpoint; empty: nothing says so."""
        first, step = running.counter.first, self._from_step
        if step is None or first is None:
            return ""
        if not running.has_read:
            return (
                f"it makes iterations, and has not written {self._recipe.go_on.says!r}: it did not"
                " read its checkpoint"
            )
        if first < step and not self._recipe.progress.counts:
            return (
                f"it was to go on from its checkpoint of iteration {step}, and is in iteration"
                f" {first}: go_on of recipe {self._recipe.name} does not fit it"
            )
        return ""

    def _progress(self, running: Running, start: ProgramStart) -> None:
        """The program is further than before."""
        count, now = running.counter.last, time.monotonic()
        assert count is not None, "there was progress"
        counts, step = self._recipe.progress.counts, self._from_step
        if not self._verified and (counts or step is None or count > step):
            self._is_verified()
        if running.asked_s is not None:
            return
        if self._told is None:
            self._told = count, now
            return
        self._look_for_checkpoint(start, count)
        last, since_s = self._told
        if now - since_s < REPORT_S or count <= last:
            return
        done = min(count - last, ITERATIONS_MAX)
        self._told = count, now
        if self._recipe.stop.words or self._is_due():
            self._stop(running, start)  # by itself, at the end of its slice; or for a checkpoint
        if self._reports:
            self._ask(running, start, count, done, (now - since_s) / done)

    def _is_due(self) -> bool:
        """Whether the program is to be stopped for a checkpoint, because it writes none itself."""
        if self._recipe.by_ranks or self._recipe.checkpoint.every:
            return False
        every_s = os.environ.get("DQ_PROTECT_SECONDS", "inf")
        return time.monotonic() - self._copied_s >= float(every_s)

    def _is_verified(self) -> None:
        self._verified = True
        if self._resize_id:
            self._link.restarted(self._resize_id)

    # --- remap points ---------------------------------------------------------------------------

    def _ask(
        self, running: Running, start: ProgramStart, count: int, done: int, time_s: float
    ) -> None:
        """Report iterations; stop the program if it is to be resized."""
        self._seq += 1
        answer = self._link.remap(
            m.RemapPoint(
                seq=self._seq,
                processors=len(self._places),
                resize_id=self._resize_id,
                iteration_time_s=time_s,
                step=max(count, 0),
                iterations=done,
            )
        )
        if answer.what == "continue":
            return
        why = self._kept.proven.unstoppable or self._no_room(answer)
        if why:
            self._link.tell(m.Aborted(answer.resize_id, why, mistake=True))
            return
        self._answer = answer
        if running.asked_s is None:
            self._stop(running, start)

    def _stop(self, running: Running, start: ProgramStart) -> None:
        """Ask it to write a checkpoint and to end: what it has written before proves nothing, if it
        could be of another moment."""
        if not self._recipe.checkpoint.only_stopped:
            self._stamp = stamp_of(start.checkpoint)
        running.ask_to_stop()

    def _no_room(self, answer: m.RemapAnswer) -> str:
        """Why the program cannot run there; empty: it can."""
        if not self._recipe.launch.one_machine or answer.what != "expand":
            return ""
        hosts = {place.host for place in (*self._places, *answer.places)}
        if len(hosts) < 2:
            return ""
        return f"recipe {self._recipe.name} runs on one machine, not on {', '.join(sorted(hosts))}"

    # --- checkpoints ----------------------------------------------------------------------------

    def _look_for_checkpoint(self, start: ProgramStart, count: int) -> None:
        """Keep a copy of one that the program has written by itself since the last.

        It is complete if it did not change from one iteration to the next.
        """
        found = stamp_of(start.checkpoint)
        if found is None or found == self._stamp or self._recipe.checkpoint.only_stopped:
            return
        if self._seen is None or self._seen[0] != found:
            self._seen = found, count
            return
        if time.monotonic() - self._copied_s < self._copy_took_s / COPY_SHARE:
            return
        self._prove(start, self._seen[1])

    def _prove(self, start: ProgramStart, step: int) -> str:
        """Keep a copy of the checkpoint; why that failed, empty if it did not."""
        try:
            took_s, nbytes = self._kept.prove(
                start.checkpoint, step, self._recipe.checkpoint.without
            )
        except OSError as e:
            self._link.report(m.CopyMade(step=step, took_s=0.0, nbytes=0, error=str(e)[:4000]))
            return str(e)
        self._stamp = stamp_of(start.checkpoint)
        self._copied_s, self._copy_took_s = time.monotonic(), took_s
        self._link.report(m.CopyMade(step=step, took_s=took_s, nbytes=nbytes))
        return ""

    # --- the end --------------------------------------------------------------------------------

    def _ended(self, running: Running, start: ProgramStart, code: int) -> int | None:
        asked = running.asked_s is not None or bool(self._recipe.stop.words)
        found = stamp_of(start.checkpoint)
        wrote = found is not None and found != self._stamp
        if code and not (asked and wrote and code in self._recipe.stop.exit_codes):
            if asked and not wrote:
                say(f"it ended with {code} when it was asked to stop")
            return 128 - code if code < 0 else code
        if not asked or (not wrote and self._recipe.done and running.is_done):
            return self._is_complete(running)
        if self._recipe.stop.words and running.is_done:
            return self._is_complete(running)
        if not wrote:
            return self._did_not_stop(f"it ended without writing {start.checkpoint}")
        if why := self._prove(start, running.counter.last or 0):
            return self._did_not_stop(why)
        return self._resize()

    def _is_complete(self, running: Running) -> int:
        """The program has ended well, as far as one can see."""
        if not running.is_done:
            return self._give_up(
                f"it ended with exit code 0, and has not written {self._recipe.done!r}"
            )
        if not self._verified:
            self._is_verified()
        self._kept.clear()
        self._link.farewell(self._resize_id)
        return 0

    def _resize(self) -> int | None:
        """The checkpoint is proven: end for the resize that was answered, or go on here."""
        if self._over:
            return self._give_up(
                f"its walltime ends. Its checkpoint of iteration {self._kept.proven.step} is kept:"
                f" dq submit --go-on {os.environ['DQ_JOB_ID']} with the same command goes on"
            )
        answer, self._answer = self._answer, None
        if answer is not None:
            why = self._link.restart_ready(answer.resize_id)
            if not why:
                return 0
            self._link.tell(m.Aborted(answer.resize_id, why))
        return None if not self._recipe.by_ranks else LOST

    def _did_not_stop(self, why: str) -> int:
        """It goes on from its last checkpoint, and keeps its size from now on."""
        why = f"it cannot be stopped as recipe {self._recipe.name} says: {why}"
        say(why)
        self._kept.give_up_resizing(why)
        if self._answer is not None:
            self._link.tell(m.Aborted(self._answer.resize_id, why, mistake=True))
        return LOST

    def _give_up(self, why: str) -> int:
        say(why)
        self._link.report(m.GaveUp(why[:4000]))
        return FAILED
