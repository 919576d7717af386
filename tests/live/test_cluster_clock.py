"""The cluster's time goes on evenly, whatever is done to the machine's clocks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.home import Home, created_s, is_alive
from dq_server.core.model.jobs import JobState
from dq_server.live.access import Access
from dq_server.live.clock import ClockSources, ClusterClock, clock_of
from dq_server.live.server import Server
from dq_server.live.store.journal import Journal
from harness.bench import until
from harness.live import Live
from tests.live.talking import Talking, held

HOUR_S, DAY_S = 3600.0, 86_400.0
JUMPS_S = (HOUR_S, -HOUR_S, DAY_S, -DAY_S)
# What libc answers for the system clock, less what the kernel does.
SHIM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long by_s(void)
{
    char text[32] = "";
    int fd = open(FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    if (fd >= 0)
        close(fd);
    return atol(text);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && id == CLOCK_REALTIME)
        t->tv_sec += by_s();
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass
class Machine:
    """Clocks of the test."""

    wall: float = 1e9
    boot: float = 500.0
    asleep_s: float = 0.0
    boots: str = "first"
    kept: list[str] = field(default_factory=list)

    def clock(self) -> ClusterClock:
        """Of a server that starts."""
        sources = ClockSources(
            lambda: self.wall,
            lambda: self.boot,
            lambda: self.boot - self.asleep_s,
            lambda: self.boots,
        )
        return ClusterClock(self.kept[-1] if self.kept else "", self.kept.append, sources)

    def pass_s(self, seconds: float) -> None:
        self.wall += seconds
        self.boot += seconds

    def sleep(self, seconds: float) -> None:
        self.pass_s(seconds)
        self.asleep_s += seconds

    def reboot(self, seconds: float) -> None:
        self.wall += seconds
        self.boot, self.asleep_s, self.boots = 10.0, 0.0, f"{self.boots}+"


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_clock_that_is_set_changes_nothing(jump_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_s(10.0)
    machine.wall += jump_s
    clock.look(idle=lambda: False)
    machine.pass_s(10.0)
    assert (clock(), clock.off_s) == (1e9 + 20.0, jump_s)
    later = machine.clock()  # the server was restarted
    machine.pass_s(5.0)
    assert later() == 1e9 + 25.0
    machine.reboot(30.0)  # the clock is as it was set, and that still does not count
    assert machine.clock()() == 1e9 + 55.0


def test_a_suspend_does_not_count() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_s(10.0)
    machine.sleep(HOUR_S)
    assert clock() == 1e9 + 10.0
    machine.sleep(DAY_S)  # no server was there to see it
    again = machine.clock()
    assert again() == 1e9 + 10.0
    machine.pass_s(3.0)
    assert again() == clock() == 1e9 + 13.0


def test_the_time_leaps_where_nobody_can_be_ended_by_it() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += HOUR_S
    clock.look(idle=lambda: False)
    assert clock() == 1e9
    clock.look(idle=lambda: True)
    assert clock() == 1e9 + HOUR_S
    machine.wall -= HOUR_S
    clock.look(idle=lambda: True)
    assert clock() == 1e9 + HOUR_S, "it never goes back"
    assert machine.clock()() == 1e9 + HOUR_S


@pytest.mark.parametrize("text", ["", "{", "[]", '{"boot": "first"}', '{"offset_s": "x"}'])
def test_a_file_that_says_nothing_is_no_obstacle(text: str) -> None:
    machine = Machine(kept=[text])
    assert machine.clock()() == 1e9


def test_what_is_kept_is_in_the_home(tmp_path: Path) -> None:
    file = tmp_path / "clock.json"
    first = clock_of(file)
    assert file.exists()
    before_s = time.time(), first()
    again_s = clock_of(file)()
    assert before_s[1] == pytest.approx(before_s[0], abs=0.5)
    assert before_s[1] <= again_s <= time.time() + 0.5
    assert clock_of(tmp_path / "missing" / "folder" / "clock.json")() > 1e9


# --- the server ---------------------------------------------------------------------------------


class TalkingByClock(Talking):
    """A server by the clock of a machine; what is silence goes by `now`."""

    def __init__(self, root: Path) -> None:
        self.machine = Machine()
        super().__init__(root)

    def start_server(self) -> None:
        keys.ensure(self.home.keys)
        self.clock = self.machine.clock()
        self.server = Server(
            Journal(self.home.journal),
            Access(self.home.keys),
            self._outlet,
            self.config,
            clock=self.clock,
            off_s=lambda: self.clock.off_s,
            monotonic=lambda: self.machine.boot - self.machine.asleep_s,
        )

    def ticks(self) -> None:
        self.clock.look(idle=self.server.idle)
        self.server.tick()
        self.server.finish_turn()


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[TalkingByClock]:
    made = TalkingByClock(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("event", [*JUMPS_S, "suspend"])
def test_no_job_ends_by_a_clock(talk: TalkingByClock, event: float | str) -> None:
    talk.agent("a")
    job = talk.submit(1, walltime_s=60.0)
    talk.beat("a", held(job))
    start_s = job.start_s or 0.0
    for _ in range(29):
        talk.machine.pass_s(2.0)
        talk.ticks()
        talk.beat("a", held(job))
        if isinstance(event, float):
            talk.machine.wall += event
        else:
            talk.machine.sleep(HOUR_S)
    assert talk.state.active[job.id].state is JobState.RUNNING
    assert talk.state.processors.nodes["a"].up
    times = [entry.time for entry in talk.server.journal.entries()]
    assert times == sorted(times)
    assert times[-1] - start_s < 60.0
    talk.machine.pass_s(2.0)
    talk.ticks()
    talk.machine.pass_s(2.0)
    talk.ticks()
    assert talk.state.active[job.id].state is JobState.KILLING, "its time is over"


def test_when_a_node_ends_is_told_by_the_system_clock(talk: TalkingByClock) -> None:
    talk.agent("a")
    talk.submit(1)
    talk.machine.wall += HOUR_S
    info = m.NodeInfo("b", 1, "b", until_s=talk.machine.wall + 600.0)
    talk.say("b", m.AgentHello(protocol=m.PROTOCOL, agent="b", nodes=[info]))
    shown = talk.say("user", m.NodesQuery())
    assert isinstance(shown, m.Data)
    assert {row["name"]: row["until_s"] for row in shown.data} == {
        "a": None,
        "b": talk.server.now() + 600.0,
    }


def test_a_restart_and_a_reboot_do_not_end_a_job(talk: TalkingByClock) -> None:
    talk.agent("a")
    job = talk.submit(1, walltime_s=60.0)
    talk.machine.wall += DAY_S
    talk.ticks()
    talk.restart()
    talk.machine.pass_s(5.0)
    talk.ticks()
    assert talk.state.active[job.id].state in (JobState.STARTING, JobState.RUNNING)
    talk.machine.reboot(20.0)
    talk.restart()
    talk.agent("a")
    talk.ticks()
    assert talk.state.active[job.id].state in (JobState.STARTING, JobState.RUNNING)
    assert talk.server.now() == 1e9 + 25.0
    talk.machine.pass_s(40.0)
    talk.beat("a", held(job))
    talk.ticks()
    assert talk.state.active[job.id].state is JobState.KILLING


def test_processes_are_known_again_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """psutil's creation times follow the system clock: another command would find no server."""
    me, noted = os.getpid(), created_s(os.getpid())
    before = psutil.Process(me).create_time()
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: before + HOUR_S)
    assert is_alive(me, noted)
    assert not is_alive(me, noted + 2.0)
    assert abs(created_s(me) - noted) < 0.01
    monkeypatch.undo()
    with pytest.raises(psutil.NoSuchProcess):
        created_s(2**22 + 1)


# --- real processes under a clock that is set ---------------------------------------------------


@pytest.fixture
def set_clock(live: Live, tmp_path: Path) -> Callable[[float], None]:
    """Sets the system clock, as all processes of the cluster and all commands see it."""
    library, by_s = tmp_path / "clock.so", tmp_path / "by_s"
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), "-x", "c", "-"]
    subprocess.run(words, input=SHIM.replace("FILE", f'"{by_s}"'), text=True, check=True)
    live.env["LD_PRELOAD"] = str(library)

    def set_by(seconds: float) -> None:
        by_s.with_suffix(".draft").write_text(f"{seconds:.0f}")
        by_s.with_suffix(".draft").replace(by_s)

    set_by(0.0)
    return set_by


@pytest.mark.live
@pytest.mark.parametrize("jump_s", (-HOUR_S, DAY_S))
def test_jobs_end_right_while_the_system_clock_is_set(
    live: Live, set_clock: Callable[[float], None], jump_s: float, tmp_path: Path
) -> None:
    live.up(4)
    stop = tmp_path / "stop"
    words = [sys.executable, "-m", "tests.live.growing", "--n", 64, "--iterations", 10**6]
    resized = live.submit("-n", 1, "--sizes", "1,2", "--walltime", "5m", "--", *words,
                          "--stop", stop)  # fmt: skip
    live.wait(resized, lambda job: job["processors"] == 2)
    ends = live.submit("-n", 1, "--walltime", "5m", "--", "sleep", 8)
    over = live.submit("-n", 1, "--walltime", "14s", "--", "sleep", 600)
    live.wait(over, lambda job: job["state"] == "running")
    set_clock(jump_s)
    until(lambda: "the system clock is" in live.dq("server", "status"), "it is not noticed")
    stop.touch()
    for job in (resized, ends):
        found = live.wait_end(job)
        assert (found["state"], found["exit_code"]) == ("done", 0), found["reason"]
    until(lambda: live.job(over)["state"] == "failed", "its walltime does not end")
    found = live.job(over)
    assert "walltime" in found["reason"]
    assert 13.0 < found["end_s"] - found["start_s"] < 600.0, "hours were not counted"
    assert Home(live.home.root).server()["pid"]
