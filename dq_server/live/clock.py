"""The cluster's time: seconds since the epoch that go on evenly, whatever is done to the clocks.

All that the scheduler decides by time (walltimes, deadlines, reservations, the order of the
journal) goes by this clock. It is set by the system clock once, and then counts CLOCK_BOOTTIME:

* The system clock is set, by hand or by NTP, forward or back: nothing happens.
* The machine was suspended: the time until it woke does not count. Jobs on it did not compute, and
  nobody could have seen their deadlines coming.
* The server was restarted: the time goes on as if it had not been. What it is counted from is kept
  in a file, with the name of the machine's boot.
* The machine was rebooted: CLOCK_BOOTTIME begins anew, so the time between is taken from the
  system clock, and what that was set by before does not count then, either.
* Nothing runs or waits: then the time may leap, and does so if the system clock is ahead.

It never goes back (Server.now sees to that, too: what is in the journal is the least).
So it may differ from the system clock; `dq server status` says by how much.

How long somebody was silent is counted by time.monotonic everywhere, in the agents and here: it
stands still in a suspend, in which nobody can say anything.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dq_client.base import opened
from dq_client.base.home import write_private

BOOT_ID = "/proc/sys/kernel/random/boot_id"

log = logging.getLogger("dq.server")

NOTICED_S = 1.0  # smaller differences between two clocks are how they are read, and how NTP steers


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot() -> str:
    with suppress(OSError):
        return opened.kernel(BOOT_ID).decode().strip()
    return ""


@dataclass(frozen=True, slots=True)
class ClockSources:
    """The clocks of a machine.

    wall   the system clock, which anybody with the right may set
    boot   since the machine was booted, suspends included; of one boot, named by `boot_id`
    awake  the same without suspends
    """

    wall: Callable[[], float] = time.time
    boot: Callable[[], float] = _boottime if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    awake: Callable[[], float] = time.monotonic
    boot_id: Callable[[], str] = _boot


@dataclass(slots=True)
class ClockRecord:
    """What is kept for the next server.

    offset_s  the cluster's time less CLOCK_BOOTTIME, in this boot
    slept_s   how long the machine has been suspended in this boot, as far as that was noticed
    off_s     the system clock less the cluster's time
    """

    boot_id: str
    offset_s: float
    slept_s: float
    off_s: float


class ClusterClock:
    """See the module's docstring. Called it tells the time.

    kept  what an earlier server has kept, as text; empty: there was none
    keep  keeps that for the next server
    """

    def __init__(
        self,
        kept: str = "",
        keep: Callable[[str], None] = lambda _: None,
        sources: ClockSources | None = None,
    ) -> None:
        self._sources, self._keep = sources or ClockSources(), keep
        s = self._sources
        boot, slept_s = s.boot(), s.boot() - s.awake()
        noted = _read(kept)
        boot_id = s.boot_id()
        if noted is not None and noted.boot_id == boot_id and boot_id:
            self._noted = noted
        else:
            off_s = noted.off_s if noted is not None else 0.0
            self._noted = ClockRecord(boot_id, s.wall() - off_s - boot, slept_s, off_s)
        self._write()

    def __call__(self) -> float:
        """Seconds since the epoch, by the cluster's time."""
        noted, boot = self._noted, self._sources.boot()
        slept_s = boot - self._sources.awake()
        lately_s = slept_s - noted.slept_s
        if lately_s > NOTICED_S:
            log.warning("the machine was suspended for %.0f s", lately_s)
            noted.slept_s = slept_s
            noted.offset_s -= lately_s
            noted.off_s += lately_s
            self._write()
        return noted.offset_s + boot

    @property
    def off_s(self) -> float:
        """How far the system clock is ahead of the cluster's time."""
        return self._sources.wall() - self()

    def look(self, *, idle: Callable[[], bool]) -> bool:
        """Notice that the system clock was set; `idle`: whether no job runs or waits.

        Whether the time has leapt: then what was due on the way has to happen first.
        """
        off_s, noted = self.off_s, self._noted
        if off_s > NOTICED_S and idle():
            log.info("nothing runs or waits: the time goes on as the system clock, %+.0f s", off_s)
            noted.offset_s, noted.off_s = noted.offset_s + off_s, 0.0
            self._write()
            return True
        if abs(off_s - noted.off_s) > NOTICED_S:
            log.warning("the system clock was set, by %+.0f s: no effect", off_s - noted.off_s)
            noted.off_s = off_s
            self._write()
        return False

    def _write(self) -> None:
        n = self._noted
        told = {"boot": n.boot_id, "offset_s": n.offset_s, "slept_s": n.slept_s, "off_s": n.off_s}
        self._keep(json.dumps(told))


def _read(text: str) -> ClockRecord | None:
    try:
        found = json.loads(text)
        figures = (float(found[name]) for name in ("offset_s", "slept_s", "off_s"))
        return ClockRecord(str(found["boot"]), *figures)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def clock_of(path: Path) -> ClusterClock:
    """The clock of the cluster that keeps it in this file."""
    kept = ""
    with suppress(OSError, ValueError):
        kept = opened.read_text(path)

    def keep(text: str) -> None:
        with suppress(OSError):  # a full disk: only a restart in its time would not know
            write_private(path, text)

    return ClusterClock(kept, keep)
