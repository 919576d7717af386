"""DQ's own process manager with real ranks: starts, ends, output, and what comes of accidents."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import ROOT
from harness.ranks import Ended, assert_nothing_left

PLAIN = str(ROOT / "tests/mpi/programs/plain.py")
C_PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
    int r, n; double x = 1, y;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    printf("C rank %d of %d: %g\\n", r, n, y);
    MPI_Finalize();
    return c > 1 && r == n - 1 ? 3 : 0;
}
"""


def start(*words: str, env: dict[str, str] | None = None, limit_s: float = 60) -> Ended:
    """`python -m harness.standalone`, with nothing left over."""
    mark = f"keeper-{os.getpid()}-{os.urandom(4).hex()}"
    done = subprocess.run(
        [sys.executable, "-m", "harness.standalone", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "DQ_TEST_JOB": mark, **(env or {})},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert_nothing_left(mark)
    return Ended(done.returncode, done.stdout, done.stderr)


def plain(ranks: int, habit: str, *rest: str, options: tuple[str, ...] = (), **env: str) -> Ended:
    """plain.py on so many ranks."""
    return start("-n", str(ranks), *options, "--", sys.executable, PLAIN, habit, *rest, env=env)


@pytest.mark.parametrize("how", [(), ("--exec",)], ids=["fork", "exec"])
@pytest.mark.parametrize("hosts", ["n1", "n1,n2,n3"])
def test_a_world_starts(how: tuple[str, ...], hosts: str) -> None:
    ended = plain(4, "sum", options=("--hosts", hosts, *how))
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == [f"rank {r} of 4: 4" for r in range(4)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_named_with_its_rank_and_node(number: signal.Signals) -> None:
    ended = plain(3, "signal", str(int(number)), options=("--hosts", "n1,n2,n3"))
    assert ended.code == 128 + number
    assert f"rank 1 on n2 was ended by signal {int(number)} ({number.name})" in ended.err
    memory = ended.out.split()
    assert len(memory) == 3  # one a node: of rank 1's no other rank tells the keeper
    assert not [path for path in memory if Path(path).exists()]


def test_the_exit_code_is_the_first_failing_ranks() -> None:
    assert plain(3, "exit").code == 3


def test_abort_gives_its_code_and_its_output() -> None:
    ended = plain(3, "abort")
    assert ended.code == 7
    assert "last words\n" in ended.out


def test_a_rank_that_leaves_mpi_without_a_word_is_a_failure() -> None:
    ended = plain(2, "vanish")
    assert ended.code == 1
    assert "rank 1 on localhost ended without MPI_Finalize" in ended.err


def test_an_exception_reads_as_under_python() -> None:
    forked, executed = (plain(1, "raise", options=how) for how in ((), ("--exec",)))
    assert forked.code == executed.code == 1
    assert forked.err == executed.err
    assert "ValueError: a mistake" in forked.err
    assert "dq_client" not in forked.err


@pytest.mark.parametrize("variable", ["PMI_FD", "DQ_LINK"])
@pytest.mark.parametrize(
    "line",
    ["hello", "cmd=put", "x" * 100_000, '{"arrived"'],
    ids=["word", "half", "long", "torn"],
)
def test_garbage_ends_the_job_with_its_rank_named(variable: str, line: str) -> None:
    ended = plain(2, "garbage", variable, line)
    assert ended.code == 1
    assert "rank 1 on localhost sent what its process manager does not understand" in ended.err


def test_output_is_whole_lines_of_all_ranks() -> None:
    ended = plain(4, "lines", "5000")
    found = ended.out.splitlines()
    assert len(found) == 20_000
    expected = {f"{r}:{i}:{'x' * (i % 200)}" for r in range(4) for i in range(5000)}
    assert set(found) == expected
    for rank in range(4):  # and each rank's in its order
        mine = [int(line.split(":")[1]) for line in found if line.startswith(f"{rank}:")]
        assert mine == sorted(mine)


def test_labels_stand_before_whole_lines() -> None:
    found = plain(2, "lines", "300", options=("--label",)).out.splitlines()
    assert len(found) == 600
    assert all(re.fullmatch(r"\[([01])\] \1:\d+:x*", line) for line in found)


def test_a_hundred_megabytes(tmp_path: Path) -> None:
    line = "y" * 99 + "\n"
    program = f"import sys\nfor _ in range(50): sys.stdout.write({line!r} * 10_000)"
    out = start("-n", "2", "--", sys.executable, "-c", program, limit_s=120).out
    assert len(out) == 100_000_000
    assert out.count(line) == 1_000_000


def test_input_reaches_rank_0_alone(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("some words")
    ended = plain(2, "input", options=("--input", str(given)))
    assert sorted(ended.out.splitlines()) == ["rank 0 read 'some words'", "rank 1 read ''"]


def test_a_forked_rank_is_the_program_it_would_be() -> None:
    forked = plain(2, "self", "a b", VALUE="v")
    executed = plain(2, "self", "a b", VALUE="v", options=("--exec",))
    looks = []
    for ended in (forked, executed):
        ranks = [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")]
        assert sorted(re.findall(r"^bye \d$", ended.out, re.M)) == ["bye 0", "bye 1"]
        for name in ("random", "numpy"):
            assert ranks[0].pop(name) != ranks[1].pop(name), "ranks draw numbers of their own"
        assert ranks[0] == ranks[1]
        looks.append(ranks[0])
    assert looks[0] == looks[1]
    assert looks[0]["ps"] == f"{sys.executable} {PLAIN} self a b"


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "import sys; print(__name__, sys.argv)", "x"],
        ["-m", "this_module", "x"],
        ["-u", "-c", "import sys; print(sys.flags.safe_path, sys.path[0] == '')"],
        ["-P", "-c", "import sys; print(sys.path[0] == '')"],
        ["-O", "-c", "assert False; print('optimised')"],
        ["script.py", "x"],
        ["folder/script.py"],
    ],
)
def test_every_way_to_name_a_program(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import sys, beside\nprint(__name__, sys.argv, sys.path[0], __file__, beside.x)\n"
    (tmp_path / "folder").mkdir()
    for path in ("this_module.py", "script.py", "folder/script.py"):
        (tmp_path / path).write_text(text)
        (tmp_path / path).with_name("beside.py").write_text("x = 1\n")
    asked = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    assert start("-n", "1", "--", sys.executable, *words).out == asked.stdout


def test_mpi4py_options_are_honoured(tmp_path: Path) -> None:
    program = tmp_path / "options.py"
    program.write_text(
        "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\n"
        "print(MPI.Is_initialized())\nMPI.Init_thread(MPI.THREAD_FUNNELED)\n"
        "print(MPI.Query_thread() == MPI.THREAD_FUNNELED)\nMPI.Finalize()\n"
    )
    assert start("-n", "1", "--", sys.executable, str(program)).out == "False\nTrue\n"
    program.write_text("import mpi4py\nmpi4py.rc.errors = 'fatal'\nfrom mpi4py import MPI\n")
    ended = start("-n", "1", "--", sys.executable, str(program))
    assert ended.code == 1
    assert "mpi4py.rc.errors cannot be changed in a rank that was forked" in ended.err
    assert start("-n", "1", "--exec", "--", sys.executable, str(program)).code == 0


def test_packages_with_threads_are_not_forked() -> None:
    ended = plain(2, "sum", OPENBLAS_NUM_THREADS="2")
    assert ended.code == 0, ended.err
    assert "rank 0 of 2: 2" in ended.out


def test_a_folder_with_a_numpy_of_its_own_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("mine = True\n")
    (tmp_path / "app.py").write_text("import numpy\nprint(numpy.mine)\n")
    assert start("-n", "1", "--", sys.executable, str(tmp_path / "app.py")).out == "True\n"


@pytest.mark.alone
def test_nothing_listens() -> None:
    alone = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    ended = plain(2, "listeners")
    assert ended.code == 0
    ours = [line for line in ended.out.splitlines() if "python" in line]
    assert not [line for line in ours if line not in alone]


def test_a_c_program_and_its_exit_code(tmp_path: Path) -> None:
    mpicc = Path(sys.executable).with_name("mpicc")
    if not mpicc.exists() or not shutil.which("gcc"):
        pytest.skip("no C compiler for MPI here")
    (tmp_path / "app.c").write_text(C_PROGRAM)
    program = str(tmp_path / "app")
    subprocess.run([mpicc, "-o", program, str(tmp_path / "app.c")], check=True)
    ended = start("-n", "3", "--hosts", "n1,n2", "--", program)
    assert sorted(ended.out.splitlines()) == [f"C rank {r} of 3: 3" for r in range(3)]
    assert start("-n", "2", "--", program, "fail").code == 3
    wrapped = start("-n", "2", "--", "/bin/sh", "-c", f"exec {program}")
    assert sorted(wrapped.out.splitlines()) == [f"C rank {r} of 2: 2" for r in range(2)]
    mixed = start("-n", "1", "--", program, ":", "-n", "2", sys.executable, PLAIN, "sum")
    assert sorted(mixed.out.splitlines()) == [
        "C rank 0 of 3: 3",
        "rank 1 of 3: 3",
        "rank 2 of 3: 3",
    ]


@pytest.mark.parametrize(("habit", "ranks", "told"), [("spawn", 1, 3), ("spawn_two", 2, 5)])
def test_a_program_that_spawns(habit: str, ranks: int, told: int) -> None:
    ended = plain(ranks, habit)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [f"parent sum {told}"] * ranks


@pytest.mark.parametrize("hosts", ["n1", "n1,n2"])
def test_published_names(hosts: str) -> None:
    ended = plain(2, "names", options=("--hosts", hosts))
    assert ended.code == 0, ended.err
    found = sorted(ended.out.splitlines())
    told = [f"{rank} found {what}" for rank in (0, 1) for what in ("nothing", "tag#0$port")]
    assert found == told


def test_a_rank_that_ignores_sigterm_ends_all_the_same() -> None:
    ended = plain(2, "ignore_term")
    assert ended.code == 4


def test_a_program_that_is_not_there() -> None:
    ended = start("-n", "2", "--", "no-such-program")
    assert ended.code == 127
    assert "no-such-program cannot be run: No such file or directory" in ended.err


@pytest.mark.alone
def test_no_shared_memory_is_left_behind() -> None:
    memory = Path("/dev/shm")
    before = set(memory.iterdir())
    assert plain(4, "signal", "9").code == 137
    assert plain(4, "sum").code == 0
    assert not [p for p in set(memory.iterdir()) - before if p.name.startswith("mpich_shm")]
