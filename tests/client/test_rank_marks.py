"""Which rank has written what: noted beside a job's output, shown by `dq logs --label`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dq_client.node.ranks.marks import RECORD, SUFFIX, Labelled, Marks, label_of
from dq_client.node.ranks.output import File

WORLDS = st.one_of(st.integers(0, 2), st.integers(-(1 << 40), 1 << 40))
WHO = st.tuples(WORLDS, st.integers(0, 11))
LINE = st.binary(max_size=6).map(lambda data: data.replace(b"\r", b"") + b"\n")
LINES = st.lists(LINE, min_size=1, max_size=3)
WRITES = st.lists(st.tuples(WHO | st.none(), LINES.map(b"".join)), max_size=12)

WRITER = """
import sys
from dq_client.node.ranks.output import File
file, number = File(sys.argv[1]), int(sys.argv[2])
for turn in range(300):
    file.write(f"{number} says {turn}\\n".encode() * (1 + turn % 3), (0, number))
"""


def shown(path: Path, pieces: int = 1 << 20, marks: bytes | None = None) -> bytes:
    """As `dq logs --label` shows a file, read in pieces of this size."""
    labelled, data = Labelled(), path.read_bytes()
    beside = Path(f"{path}{SUFFIX}")
    known = (beside.read_bytes() if beside.exists() else b"") if marks is None else marks
    parts = []
    for begin in range(0, len(data), pieces):
        labelled.learn(known[: RECORD.size * 3 + 7])
        known = known[RECORD.size * 3 + 7 :]
        while known and begin + pieces >= len(data):
            labelled.learn(known)
            known = b""
        parts.append(labelled.show(data[begin : begin + pieces]))
    return b"".join(parts)


@given(WRITES, st.integers(1, 40))
def test_every_line_has_the_label_of_who_wrote_it(
    tmp_path_factory: object, writes: list[tuple[tuple[int, int] | None, bytes]], piece: int
) -> None:
    path = Path(os.fspath(tmp_path_factory.mktemp("marks"))) / "out"  # type: ignore[attr-defined]
    file = File(str(path))
    wanted = b""
    for who, data in writes:
        file.write(data, who)
        label = label_of(who).encode() if who is not None else b""
        wanted += b"".join(label + line for line in data.splitlines(keepends=True))
    assert path.read_bytes() == b"".join(data for _, data in writes)
    assert shown(path) == wanted


def test_pieces_of_a_line_are_labelled_once(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"a long line\nand another\n", (0, 1))
    file.write(b"of another\n", (1, 2))
    for piece in range(1, 20):
        assert shown(tmp_path / "out", piece) == (
            b"[1] a long line\n[1] and another\n[1.2] of another\n"
        )


def test_a_line_without_an_end_does_not_swallow_the_next_label(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"no end", (0, 1))
    file.write(b"mine\n", (0, 2))
    file.write(b"begun ", (0, 2))
    file.write(b"and ended\n", (0, 2))
    assert shown(tmp_path / "out") == b"[1] no end\n[2] mine\n[2] begun and ended\n"


def test_what_somebody_else_has_written_has_no_label(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (0, 0))
    with (tmp_path / "out").open("ab") as other:
        other.write(b"a stranger's\n")
    file.write(b"two\n", (0, 0))
    assert shown(tmp_path / "out") == b"[0] one\na stranger's\n[0] two\n"


def test_an_output_that_was_cut_loses_old_records(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"a longer first line\n", (0, 0))
    os.truncate(tmp_path / "out", 0)
    file.write(b"x\ny\n", (0, 3))
    assert shown(tmp_path / "out") == b"[3] x\n[3] y\n"


def test_a_torn_record_is_left_out(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (0, 0))
    file.write(b"two\n", (0, 1))
    marks = Path(f"{tmp_path}/out{SUFFIX}").read_bytes()
    assert shown(tmp_path / "out", marks=marks[:-3]) == b"[0] one\ntwo\n"


def test_a_disk_without_room_costs_the_label_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f"out{SUFFIX}").mkdir()  # cannot be opened for writing
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (0, 0))
    assert (tmp_path / "out").read_bytes() == b"one\n"
    assert not file.lost_bytes


def test_numbers_that_fit_no_record_cost_the_label_and_nothing_else(tmp_path: Path) -> None:
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (1 << 70, 0))
    file.write(b"two\n", (0, 3))
    assert shown(tmp_path / "out") == b"one\n[3] two\n"


def test_a_full_device_takes_back_half_a_record(tmp_path: Path) -> None:
    marks = Marks("/dev/full")
    marks.note(0, 4, (0, 0))  # no error
    marks.close()


def test_nothing_is_noted_of_what_has_no_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    reading = os.open(tmp_path / "out", os.O_RDONLY | os.O_NONBLOCK)
    file = File(str(tmp_path / "out"))
    file.write(b"one\n", (0, 0))
    assert file.lost_bytes == 4, "a FIFO is no place for output"
    assert not (tmp_path / f"out{SUFFIX}").exists()
    os.close(reading)
    (tmp_path / "nowhere").symlink_to(os.devnull)
    File(str(tmp_path / "nowhere")).write(b"one\n", (0, 0))
    assert not (tmp_path / f"nowhere{SUFFIX}").exists()


def test_keepers_that_write_at_once_need_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "out"
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)])
        for number in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    lines = shown(path).splitlines()
    assert len(lines) == 4 * 600
    for line in lines:
        label, _, rest = line.partition(b" ")
        assert label == b"[%c]" % rest[0], line
