"""The few lines of the PMI-1 wire protocol that MPI has no call for.

Every rank under hydra has a connection to its process manager on the descriptor in PMI_FD; the MPI
library uses it in MPI_Init and is silent afterwards, unless the program spawns through MPI itself.
One request is a line (or for `mcmd`, several up to `endcmd`), one answer is a line.

Two requests are made here. `finalize` says that this rank's exit is intended, which the library
says only in a collective MPI_Finalize. `spawn` is what MPI_Comm_spawn sends; the library then waits
for the new ranks to start, while this function returns at once. Tested with the hydra of MPICH
5.0.2 (docs/mpiexec.md).
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence

from resize_lib.processes.interface import ProcessError, SpawnError

DESCRIPTOR_VARIABLE = "PMI_FD"
SPAWN_ANSWER = "spawn_result"
FINALIZE_ANSWER = "finalize_ack"

_unanswered = 0  # spawn requests whose answer has not been read


def descriptor() -> int:
    """The connection to the process manager, to wait on."""
    return int(os.environ[DESCRIPTOR_VARIABLE])


def ask_to_spawn(command: Sequence[str], count: int, info: Mapping[str, str]) -> None:
    """Ask for `count` processes running `command`; returns at once, `spawn_answer` comes later.

    `info` are the keys of MPI_Comm_spawn: hosts, wdir. Raises SpawnError for text that cannot
    travel, nothing sent.
    """
    global _unanswered
    program, *arguments = command
    lines = ["mcmd=spawn", f"nprocs={count}", f"execname={program}"]
    lines += ["totspawns=1", "spawnssofar=1", f"argcnt={len(arguments)}"]
    lines += [f"arg{i}={argument}" for i, argument in enumerate(arguments, 1)]
    lines += ["preput_num=0", f"info_num={len(info)}"]
    for i, (key, value) in enumerate(info.items()):
        lines += [f"info_key_{i}={key}", f"info_val_{i}={value}"]
    for line in lines:
        if "\n" in line:
            what = line.partition("=")[2]
            raise SpawnError(f"an argument with a line break cannot be passed on: {what!r}")
    read_outstanding()
    _send("\n".join([*lines, "endcmd"]))
    _unanswered += 1


def spawn_answer() -> str | None:
    """None while the process manager works on it, then "" if the processes were started, else
    what it says; call when `descriptor()` is readable."""
    global _unanswered
    if not select.select([descriptor()], [], [], 0)[0]:
        return None
    answer = _read_answer(SPAWN_ANSWER)
    _unanswered -= 1
    return "" if answer.get("rc") == "0" else f"the process manager refused: {answer}"


def read_outstanding() -> None:
    """Wait for the answers to spawn requests that have not been read.

    Call it before any other request, which would take them for its own answer.
    """
    global _unanswered
    while _unanswered:
        _read_answer(SPAWN_ANSWER)
        _unanswered -= 1


def finalize() -> None:
    """Tell the process manager that this rank's exit is intended, and wait for its answer."""
    try:
        read_outstanding()
        _send("cmd=finalize")
        _read_answer(FINALIZE_ANSWER)
    except (OSError, ProcessError):
        pass  # the process manager is gone, and the job with it


def _send(text: str) -> None:
    data = text.encode() + b"\n"
    while data:
        data = data[os.write(descriptor(), data) :]


def _read_answer(kind: str) -> dict[str, str]:
    """The fields of the next answer of this kind; others are dropped: nothing waits for them."""
    while True:
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(descriptor(), 1)  # never past the line: the rest is not ours
            if not byte:
                raise ProcessError("the process manager hung up")
            line += byte
        words = [word.partition("=") for word in line.decode().split()]
        fields = {key: value for key, _, value in words}
        if fields.get("cmd") == kind:
            return fields
