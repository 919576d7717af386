"""Node loss is a shrink: a protected job loses a node, a rank, or its luck in the middle of a
resize, starts again on what is left, and its result is right."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import keys
from dq_client.base import messages as m
from harness.bench import Bench, processes_of, two_nodes, until
from harness.live import Live
from tests.live.talking import Talking

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, str(Path(__file__).with_name("protected.py"))]
DISK = m.Protect("disk", every_points=1)
SELDOM = m.Protect("disk", every_s=600.0)  # so: before resizes only
PARTNER = m.Protect("partner", every_points=1)


class Protected(Bench):
    """Two nodes of two processors, and one job."""

    def run(self, *arguments: str, protect: m.Protect, **more: Any) -> int:
        env = {"PYTHONPATH": str(ROOT)}
        return self.submit([*PROGRAM, *arguments], env=env, protect=protect, **more)

    def view(self, job: int) -> dict[str, Any]:
        view: dict[str, Any] = self.ask(m.JobQuery(job))
        return view

    def copied(self, job: int, step: int) -> None:
        def there() -> bool:
            view = self.view(job)
            assert view["end_s"] is None, view["reason"]
            return (view["protection"]["step"] or 0) >= step

        until(there, "no copy is made")

    def kill_node(self, name: str) -> None:
        """All its processes, the agent first; what it had in memory is gone, too."""
        for pid in (self.agent_pid(name), *processes_of(self, name)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in Path("/dev/shm").glob(f"dq-*/{name}"):
            if folder.parent in self.memory():
                shutil.rmtree(folder)

    def memory(self) -> list[Path]:
        """Folders in memory of this cluster's first jobs."""
        secret = keys.load(self.home.keys, "server").secret
        names = [keys.secret_of_job(secret, "memory", job)[:24] for job in range(1, 10)]
        return [Path("/dev/shm", f"dq-{name}") for name in names]

    def running(self, program: str) -> dict[int, str]:
        """Pids of a program that jobs run, with their nodes."""
        found = {}
        for node in ("n01", "n02"):
            for pid in processes_of(self, node):
                # The command line of a forked rank is one text (dq_client/base/process.py, show).
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                if any(word.endswith(program.encode()) for word in line.split(b" ")[:2]):
                    found[pid] = node
        return found

    def kill_rank(self) -> None:
        os.kill(list(self.running("protected.py"))[-1], signal.SIGKILL)

    def first_node(self, job: int) -> str:
        """Where rank 0 runs, and the launcher if there is one: whichever node came first."""
        return str(self.view(job)["nodes"][0])

    def right_end(self, job: int, *, restarts: int = 1) -> dict[str, Any]:
        until(lambda: self.view(job)["end_s"] is not None, "the job never ends", 90)
        view = self.view(job)
        assert (view["state"], view["restarts"]) == ("done", restarts), view["reason"]
        lines = (self.home.job(job) / "out").read_text().splitlines()
        verdicts = [line for line in lines if line.startswith("data ")]
        assert verdicts == ["data right"], "the result, and exactly once"
        until(lambda: not (self.home.job(job) / "copies").exists(), "copies are left behind")
        return view

    def story(self, job: int) -> str:
        return "\n".join(line["text"] for line in self.ask(m.WhyQuery(job))["story"])


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory, launcher: str) -> Iterator[Protected]:
    made = Protected(tmp_path_factory.mktemp("protect"), two_nodes(), launcher)
    memory = made.memory()
    yield made
    left = made.close()
    held = [folder for folder in memory if folder.exists()]
    for folder in held:
        shutil.rmtree(folder)
    assert left == 0, "processes were left behind"
    assert not held, "copies were left in memory"


@pytest.mark.parametrize(
    ("launcher", "first", "protect"),
    [("mpiexec", False, DISK), ("dq", True, PARTNER)],
    ids=["disk, mpiexec", "partner, first node"],
)
def test_a_lost_node_is_a_shrink(bench: Protected, first: bool, protect: m.Protect) -> None:
    job = bench.run("--turns", "25", protect=protect, initial=4, sizes=m.Sizes([2, 4]))
    bench.copied(job, 3)
    home = bench.first_node(job)
    node = home if first else {"n01": "n02", "n02": "n01"}[home]
    bench.kill_node(node)
    view = bench.right_end(job)
    assert view["processors"] == 2
    assert f"node {node} was lost" in bench.story(job)
    assert "restart 1 of 3 from the copy of iteration" in bench.story(job)
    until(lambda: bench.idle() == 2, "processors were lost")
    before, again = (line for line in _lines(bench, job) if line.startswith("begin "))
    assert (before, again.split()[1]) == ("begin 4 at 0", "2")
    assert int(again.split()[3]) >= 3, "it goes on where the copy was made"
    bench.restart_agent(node)
    until(lambda: bench.idle() == 4, "the node does not come back")


def _lines(bench: Protected, job: int) -> list[str]:
    return (bench.home.job(job) / "out").read_text().splitlines()


def test_a_killed_rank_and_a_server_killed_meanwhile(bench: Protected) -> None:
    job = bench.run("--turns", "20", protect=PARTNER, initial=4, kind="rigid")
    bench.copied(job, 3)
    bench.kill_rank()
    bench.kill_server()
    time.sleep(0.5)
    bench.start_server()
    view = bench.right_end(job)
    assert view["processors"] == 4
    until(lambda: bench.idle() == 4, "processors were lost")


def test_killed_in_the_middle_of_a_resize(bench: Protected) -> None:
    """The ranks of n02 die while the data moves there: it goes on from the copy before."""
    job = bench.run("--turns", "60", "--die-in-resize", "last", protect=SELDOM,
                    initial=2, sizes=m.Sizes([2, 4]))  # fmt: skip
    bench.right_end(job)
    story = bench.story(job)
    assert "was ended by signal 9 (SIGKILL)" in story


@pytest.mark.parametrize("rank", ["last", "first"])  # one that leaves, one that stays
def test_killed_in_the_middle_of_a_shrink(bench: Protected, rank: str) -> None:
    """It goes on from the copy that was made just before, for the shrink."""
    job = bench.run("--turns", "20", "--die-in-resize", rank, protect=SELDOM,
                    initial=4, sizes=m.Sizes([2, 4]))  # fmt: skip
    until(lambda: bench.view(job)["remap_points"] > 5, "the job does not begin")
    bench.ask(m.Resize(job, 2))
    bench.right_end(job)
    before, again = (line.split() for line in _lines(bench, job) if line.startswith("begin "))
    assert (before, again[1] in ("2", "4")) == (["begin", "4", "at", "0"], True)
    assert int(again[3]) > 5, "no turn was lost but the one that the shrink was in"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("how", ["link", "level"])
def test_a_folder_of_somebody_else_holds_no_copy(
    bench: Protected, tmp_path: Path, how: str
) -> None:
    """He has even guessed its name, and the umask lets everybody do everything."""
    (memory, *_), theirs = bench.memory(), tmp_path / "theirs"
    theirs.mkdir()
    if how == "link":
        memory.symlink_to(theirs)
    else:  # only the lower one is his
        memory.mkdir(mode=0o700)
        (memory / "n01").mkdir()
        (memory / "n01").chmod(0o777)
        os.chown(memory / "n01", 65534, 65534)
    try:
        program = ["sh", "-c", f"umask 000; exec {' '.join(PROGRAM)} --turns 15"]
        job = bench.submit(program, env={"PYTHONPATH": str(ROOT)}, protect=PARTNER, initial=4,
                           kind="rigid")  # fmt: skip
        bench.right_end(job, restarts=0)
        err = (bench.home.job(job) / "err").read_text()
        assert "no copy of the job's data can be made" in err
        assert "is a link" in err if how == "link" else "belongs to somebody else" in err
        assert not [path for path in (theirs, memory) for path in path.rglob("part-*")]
    finally:
        memory.unlink() if how == "link" else shutil.rmtree(memory)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a megabyte."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be made here: {made.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_costs_the_new_copies_only(small_disk: Path, bench: Protected) -> None:
    """The job goes on and says so; the last copy stays sound: a killed rank proves it."""
    protect = m.Protect("disk", every_points=1, folder=str(small_disk))
    job = bench.run("--turns", "60", protect=protect, initial=2, kind="rigid")
    bench.copied(job, 3)
    with (small_disk / "filler").open("ab", buffering=0) as filler:

        def is_full() -> bool:
            """For three points; a failed copy gives its room back, which is filled again."""
            with contextlib.suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
            view = bench.view(job)
            error = view["protection"]["error"] or ""
            return (
                "No space left" in error and view["remap_points"] > view["protection"]["step"] + 3
            )

        until(is_full, "the disk does not fill up, or the job does not go on")
    view = bench.view(job)
    kept = view["protection"]["step"]
    assert view["state"] == "running"
    assert "no copy of its data can be made, the last one stays" in bench.story(job)
    bench.kill_rank()
    until(lambda: bench.view(job)["restarts"] == 1, "it is not started again")
    (small_disk / "filler").unlink()
    bench.right_end(job)
    begins = [line for line in _lines(bench, job) if line.startswith("begin ")]
    assert begins == ["begin 2 at 0", f"begin 2 at {kept}"]
    assert "copies of its data are made again" in bench.story(job)


def test_the_older_copy_is_used_if_the_newest_is_damaged(bench: Protected) -> None:
    job = bench.run("--turns", "10", "--stop-at", "5", protect=DISK, initial=4, kind="rigid")
    bench.copied(job, 5)
    newest = _copies(bench, job)[0]
    body = bytearray((newest / "part-00002").read_bytes())
    body[-3] ^= 1
    (newest / "part-00002").write_bytes(body)
    bench.kill_rank()
    bench.right_end(job)
    begins = [line for line in _lines(bench, job) if line.startswith("begin ")]
    assert begins[1] == "begin 4 at 4"


def _copies(bench: Protected, job: int) -> list[Path]:
    """Folders of the two copies, newest first."""
    found = list((bench.home.job(job) / "copies").iterdir())
    assert len(found) == 2
    return sorted(found, key=lambda folder: int(folder.name.split(".")[1]), reverse=True)


def test_no_sound_copy_is_a_clear_end(bench: Protected) -> None:
    job = bench.run("--turns", "10", "--stop-at", "5", protect=DISK, initial=2, kind="rigid")
    bench.copied(job, 5)
    for folder in _copies(bench, job):
        (folder / "manifest").write_text("{}")
    bench.kill_rank()
    until(lambda: bench.view(job)["end_s"] is not None, "the job never ends")
    view = bench.view(job)
    assert (view["state"], view["restarts"]) == ("failed", 1)
    assert "no copy of its data can be used" in view["reason"]
    assert "manifest is damaged" in view["reason"]


def test_a_folder_that_cannot_be_written_costs_the_copies_only(
    bench: Protected, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    protect = m.Protect("disk", every_points=1, folder=str(tmp_path / "file"))
    job = bench.run("--turns", "4", protect=protect, initial=2, kind="rigid")
    until(lambda: bench.view(job)["end_s"] is not None, "the job never ends")
    view = bench.view(job)
    assert (view["state"], view["protection"]["copies"]) == ("done", 0)
    assert "Not a directory" in view["protection"]["error"]
    assert "no copy of its data can be made" in bench.story(job)
    assert "Not a directory" in (bench.home.job(job) / "err").read_text()


PLANNED = """\
import os, sys, time, resize_lib
with resize_lib.session() as rs:
    total, turns = rs.value("total", 0), rs.value("turns", 3)
    for turn in rs.iterations(2):
        total.value += 1
        turns.value = 40
    for turn in rs.iterations({length}):
        total.value += 100
        time.sleep(0.05)
        while turn == 30 and os.environ["DQ_JOB_INSTANCE"] == "1":  # until it is killed
            time.sleep(0.1)
    if rs.rank == 0:
        print("data", total.value, flush=True)
"""


@pytest.mark.parametrize(
    ("length", "told"),
    [
        ("turns.value", "a loop has 3 iterations in the program and 40 iterations in the copy"),
        ("range(int(open({file!r}).read()))", ""),  # the sequence of the job, as if nothing was
    ],
    ids=["a value", "a sequence that became longer"],
)
def test_a_loop_has_the_length_of_its_value_after_a_restart(
    bench: Protected, tmp_path: Path, length: str, told: str
) -> None:
    file, script = tmp_path / "turns", tmp_path / "planned.py"
    file.write_text("40")
    script.write_text(PLANNED.format(length=length.format(file=str(file))))
    job = bench.submit([sys.executable, str(script)], initial=2, kind="rigid", protect=DISK,
                       env={"PYTHONPATH": str(ROOT), "DQ_REPORT_INTERVAL": "0"})  # fmt: skip
    bench.copied(job, 5)
    file.write_text("50")
    os.kill(list(bench.running("planned.py"))[-1], signal.SIGKILL)
    until(lambda: bench.view(job)["end_s"] is not None, "the job never ends", 90)
    view, folder = bench.view(job), bench.home.job(job)
    assert (view["state"], view["restarts"]) == ("done", 1), view["reason"]
    assert (folder / "out").read_text() == "data 4002\n"
    said = (folder / "err").read_text()
    assert told in said and ("in the copy" in said) == bool(told)


def test_a_program_that_fails_by_itself_is_not_restarted(bench: Protected) -> None:
    job = bench.run("--turns", "4", "--fail-at", "2", protect=DISK, initial=4, kind="rigid")
    until(lambda: bench.view(job)["end_s"] is not None, "the job never ends")
    view = bench.view(job)
    assert (view["state"], view["restarts"]) == ("failed", 0)
    assert view["reason"].startswith("the application gave up: ")
    assert "protected.py:" in view["reason"] and "ValueError: as asked (rank" in view["reason"]


@pytest.mark.parametrize(
    ("pool", "machines", "sizes", "more", "how"),
    [
        (0, ("m1", "m1"), (2, 4), {}, "disk"),
        (0, ("", ""), (2, 4), {}, "disk"),  # emulated
        (0, ("m1", "m2"), (2, 4), {}, "partner"),
        (0, ("m1", "m2"), (1, 2), {}, "disk"),  # it may be on one node for ever
        (0, ("m1", "m2"), (2, 4), {"folder": "/shared"}, "disk"),
        (0, ("m1", "m2"), (2, 4), {"how": "disk"}, "disk"),  # by name, as of older clients
        (4, ("m1", "m1"), (2, 4), {}, "partner"),
        (4, (), (3,), {}, "partner"),
        (4, (), (2,), {}, "disk"),
        (4, (), (2,), {"how": "partner"}, "partner"),
    ],
)
def test_the_server_chooses_where_copies_are(
    tmp_path: Path,
    pool: int,
    machines: tuple[str, ...],
    sizes: tuple[int, ...],
    more: dict[str, Any],
    how: str,
) -> None:
    talk = Talking(tmp_path, options={"pool": {"max": pool, "shape": {"processors": 2}}})
    for number, machine in enumerate(machines):
        talk.agent(f"a{number}", processors=2, machine=machine)
    job = talk.submit(*sizes, protect=m.Protect(**({"how": "auto"} | more)))
    view = talk.say("user", m.JobQuery(job.id))
    assert isinstance(view, m.Data) and view.data["protection"]["how"] == how
    talk.restart()  # the journal has the kind that was chosen
    protection = talk.state.job(job.id).spec.protection
    assert protection is not None and protection.how == how
    talk.close()


def test_copies_on_disk_need_a_folder_that_the_nodes_share(tmp_path: Path) -> None:
    """Refused at submission: after a loss it would be too late."""
    talk = Talking(tmp_path)

    def submitted(*sizes: int, **protect: Any) -> str:
        protection = talk.submit(*sizes, protect=m.Protect(**protect)).spec.protection
        assert protection is not None
        return protection.how

    for name in ("a", "b"):
        talk.agent(name, machine=f"machine {name}", home="of both")
    assert submitted(1, how="disk") == "disk"
    talk.agent("c", machine="machine c", home="of c")
    for how in ("disk", "auto"):  # a single rank has no partner
        with pytest.raises(AssertionError, match="DQ_HOME, which b and c do not share: give --pro"):
            submitted(1, how=how)
    assert submitted(1, how="disk", folder="/of/all") == "disk"
    assert [submitted(1, how="partner"), submitted(2, how="auto")] == ["partner", "partner"]
    talk.close()


def test_what_makes_no_sense_is_refused(live: Live) -> None:
    live.up(2)
    for words, says in [
        (["--protect", "tape"], "tape"),
        (["--protect-every", "3"], "--protect-every needs --protect"),
        (["--protect", "--protect-every", "soon"], "--protect-every soon"),
        (["--protect", "--protect-every", "0"], "--protect-every 0"),
        (["--protect", "--restarts", "-1"], "--restarts -1"),
        (["--protect", "--protect-dir", "/nowhere/at/all"], "no folder that can be written"),
    ]:
        done = live.run("submit", *words, "--", "true")
        assert (done.returncode, done.stdout) == (2, ""), words
        assert says in done.stderr
    done = live.run("submit", "--protect", "--", "true")
    assert done.stderr == "" and live.job(int(done.stdout))["protection"]["how"] == "disk"
    job = live.submit("--protect", "partner", "--restarts", "1", "--", "true")
    assert live.wait_end(job)["protection"]["how"] == "partner"
    assert "partner, 0 of 1 restarts, 0 copies" in live.dq("job", job)
