"""PMI-1: what an MPI library asks its process manager, and the state of one MPI world.

Pure: a line goes in, what is to be done comes out. The dozen commands are those of MPICH 3 to 5
(and Intel MPI), which all speak version 1.1 if the process manager says so. Lines come from the
program's own processes, so nothing about them is trusted: what is no command raises `Garbage`, and
everything that is kept is bounded.

A world may span nodes. Each node's keeper has a World with all keys that it knows; at a barrier it
says `Fence` with the keys put there, and goes on when `fenced` brings everybody's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

LINE_BYTES_MAX = 64 << 10
SPAWN_BYTES_MAX = 4 << 20
KEYS_BYTES_MAX = 64 << 20  # of one world
NAME_MAX, KEY_MAX, VALUE_MAX = 256, 64, 4096
RANKS_MAX = 100_000  # of one spawn
NUMBER_DIGITS_MAX = 12
SHOWN_MAX = 60  # characters of a line in an error


class Garbage(Exception):
    """A rank said something that is no PMI-1."""


@dataclass(frozen=True)
class Say:
    """Send this line to a rank."""

    rank: int
    line: str


@dataclass(frozen=True)
class Fence:
    """All local ranks are in barrier `seq`; they have put `keys` since the last."""

    seq: int
    keys: dict[str, str]


@dataclass(frozen=True)
class Spawn:
    """A rank calls MPI_Comm_spawn (or _multiple); `answer_spawn` answers."""

    rank: int
    programs: list[list[str]]
    program_of: list[int]
    info: dict[str, str]
    keys: dict[str, str]


@dataclass(frozen=True)
class Abort:
    """A rank calls MPI_Abort."""

    rank: int
    code: int


@dataclass(frozen=True)
class Publish:
    """A rank gives a port a name (MPI_Publish_name), or takes the name back: an empty port."""

    rank: int
    name: str
    port: str


@dataclass(frozen=True)
class Lookup:
    """A rank asks for the port of a name."""

    rank: int
    name: str


@dataclass(frozen=True)
class Finalized:
    """A rank is in MPI_Finalize."""

    rank: int


Effect = Union[Say, Fence, Spawn, Abort, Publish, Lookup, Finalized]


@dataclass
class PmiWorld:
    """One MPI world as one node sees it.

    name     of its key-value space. Unique for ever: MPICH names shared memory after it, and what a
             killed world left under the same name makes the next one fail
    local    its ranks here
    nodes    for each rank the number of its node, for MPICH to know who shares memory
    """

    name: str
    size: int
    local: frozenset[int]
    nodes: list[int]
    keys: dict[str, str] = field(default_factory=dict)
    appnums: list[int] = field(default_factory=list)  # by rank; empty: all 0
    initialized: set[int] = field(default_factory=set)
    finalized: set[int] = field(default_factory=set)
    seq: int = 0  # barriers that are over
    _inside: set[int] = field(default_factory=set)  # in the barrier
    _new: dict[str, str] = field(default_factory=dict)  # keys put here since the last barrier
    _bytes: int = 0
    _spawns: dict[int, list[str]] = field(default_factory=dict)  # lines of an mcmd, by rank
    _parts: dict[int, list[dict[str, str]]] = field(default_factory=dict)  # of a multiple spawn

    def __post_init__(self) -> None:
        self.keys.setdefault("PMI_process_mapping", mapping(self.nodes))

    def handle(self, rank: int, line: str) -> list[Effect]:
        """What a line from a rank leads to. Garbage, and nothing has changed, if it is none."""
        if rank in self._spawns or line == "mcmd=spawn":
            return self._spawn_line(rank, line)
        command, fields = parse(line)
        if command == "put":
            return self._put(rank, fields)
        if command == "barrier_in":
            return self._barrier(rank)
        if command == "abort":
            return [Abort(rank, number(fields.get("exitcode", "1"), line))]
        if command in ("publish_name", "unpublish_name"):
            port = fields.get("port", "") if command == "publish_name" else ""
            return [Publish(rank, needed(fields, "service", line), port)]
        if command == "lookup_name":
            return [Lookup(rank, needed(fields, "service", line))]
        if command == "finalize":
            self.finalized.add(rank)
            return [Finalized(rank), Say(rank, "cmd=finalize_ack rc=0")]
        return [Say(rank, self._answer(rank, command, fields, line))]

    def fenced(self, seq: int, keys: dict[str, str]) -> list[Effect]:
        """Everybody is in barrier `seq`, with these keys; said again, it changes nothing."""
        if seq != self.seq or self._inside != self.local:
            return []
        self.keys.update(keys)
        self.seq += 1
        ranks, self._inside, self._new = sorted(self._inside), set(), {}
        return [Say(rank, "cmd=barrier_out rc=0") for rank in ranks]

    def waiting(self) -> Fence | None:
        """The barrier that all local ranks are in, if they are: to be said again."""
        if self.local and self._inside == self.local:
            return Fence(self.seq, dict(self._new))
        return None

    def _barrier(self, rank: int) -> list[Effect]:
        if rank in self._inside:
            raise Garbage("a second barrier_in inside a barrier")
        self._inside.add(rank)
        if self._inside != self.local:
            return []
        if len(self.local) == self.size:
            return self.fenced(self.seq, self._new)
        return [Fence(self.seq, dict(self._new))]

    def _put(self, rank: int, fields: dict[str, str]) -> list[Effect]:
        key, value = needed(fields, "key", "put"), needed(fields, "value", "put")
        if len(key) > KEY_MAX or len(value) > VALUE_MAX:
            raise Garbage(f"a key of {len(key)} or a value of {len(value)} characters")
        self._bytes += len(key) + len(value)
        if self._bytes > KEYS_BYTES_MAX:
            raise Garbage("more keys than an MPI library puts")
        self.keys[key] = self._new[key] = value
        return [Say(rank, "cmd=put_result rc=0 msg=success")]

    def _answer(self, rank: int, command: str, fields: dict[str, str], line: str) -> str:
        if command == "init":
            self.initialized.add(rank)
            return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
        if command == "get_maxes":
            return (
                f"cmd=maxes rc=0 kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"
            )
        if command == "get_appnum":
            return f"cmd=appnum rc=0 appnum={self.appnums[rank] if self.appnums else 0}"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname rc=0 kvsname={self.name}"
        if command == "get_universe_size":
            return f"cmd=universe_size rc=0 size={self.size}"
        if command == "get":
            found = self.keys.get(needed(fields, "key", line))
            if found is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={found}"
        return f"cmd={command}_result rc=-1 msg=unknown_command"

    # --- spawn --------------------------------------------------------------------------------

    def _spawn_line(self, rank: int, line: str) -> list[Effect]:
        lines = self._spawns.setdefault(rank, [])
        if line == "mcmd=spawn":
            if lines:
                raise Garbage("mcmd=spawn inside of another")
            lines.append("")
            return []
        if line != "endcmd":
            lines.append(line)
            if sum(map(len, lines)) > SPAWN_BYTES_MAX:
                raise Garbage("a spawn request without an end")
            return []
        del self._spawns[rank]
        fields = dict(split(word) for word in lines[1:])
        parts = [*self._parts.pop(rank, []), fields]
        if len(parts) < number(fields.get("totspawns", "1"), "totspawns"):
            if len(parts) > NAME_MAX:
                raise Garbage("a spawn of too many programs")
            self._parts[rank] = parts
            return []
        return [_spawn(rank, parts)]


def answer_spawn(rank: int, refused: str = "") -> Say:
    """The answer to a Spawn."""
    if refused:
        return Say(rank, "cmd=spawn_result rc=-1 msg=refused")
    return Say(rank, "cmd=spawn_result rc=0 msg=success")


def answer_publish(effect: Publish, why_not: str = "") -> Say:
    """The answer to a Publish."""
    what = "publish" if effect.port else "unpublish"
    rc = "-1 msg=" + why_not.replace(" ", "_") if why_not else "0"
    return Say(effect.rank, f"cmd={what}_result rc={rc}")


def answer_lookup(effect: Lookup, port: str | None) -> Say:
    """The answer to a Lookup."""
    if port is None:
        return Say(effect.rank, "cmd=lookup_result rc=-1 msg=not_found")
    return Say(effect.rank, f"cmd=lookup_result rc=0 port={port}")


def _spawn(rank: int, parts: list[dict[str, str]]) -> Spawn:
    programs: list[list[str]] = []
    program_of: list[int] = []
    keys: dict[str, str] = {}
    info: dict[str, str] = {}
    for i, fields in enumerate(parts):
        count = number(fields.get("nprocs", ""), "nprocs")
        arguments = number(fields.get("argcnt", "0"), "argcnt")
        if not 0 < count <= RANKS_MAX or not 0 <= arguments <= LINE_BYTES_MAX:
            raise Garbage(f"a spawn of {count} ranks with {arguments} arguments")
        words = [fields.get(f"arg{j}", "") for j in range(1, arguments + 1)]
        programs.append([needed(fields, "execname", "spawn"), *words])
        program_of += [i] * count
        if len(program_of) > RANKS_MAX:
            raise Garbage(f"a spawn of more than {RANKS_MAX} ranks")
        keys.update(_numbered(fields, "preput_num", "preput_key_", "preput_val_"))
        info.update(_numbered(fields, "info_num", "info_key_", "info_val_"))
    return Spawn(rank, programs, program_of, info, keys)


def _numbered(fields: dict[str, str], count: str, key: str, value: str) -> dict[str, str]:
    many = number(fields.get(count, "0"), count)
    if not 0 <= many <= NAME_MAX:
        raise Garbage(f"{count}={many}")
    return {fields.get(f"{key}{i}", ""): fields.get(f"{value}{i}", "") for i in range(many)}


def parse(line: str) -> tuple[str, dict[str, str]]:
    """The command of a line and its fields; the last one, `value` or `port`, may have blanks."""
    head, tail = line, {}
    for last in (" value=", " port="):
        before, found, rest = line.partition(last)
        if found:
            head, tail = before, {last[1:-1]: rest}
            break
    fields = dict(split(word) for word in head.split())
    fields.update(tail)
    command = fields.pop("cmd", "")
    if not command or len(command) > KEY_MAX:
        raise Garbage(f"no PMI command: {shown(line)}")
    return command, fields


def split(word: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, found, value = word.partition("=")
    if not found or not name:
        raise Garbage(f"not NAME=VALUE: {shown(word)}")
    return name, value


def needed(fields: dict[str, str], name: str, line: str) -> str:
    """A field that must be there."""
    found = fields.get(name)
    if not found:
        raise Garbage(f"{name} is missing in {shown(line)}")
    return found


def number(text: str, line: str) -> int:
    """A whole number of a sensible size."""
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX):
        raise Garbage(f"no number in {shown(line)}")
    return int(text)


def shown(text: str) -> str:
    """A piece of hostile text, safe to print."""
    piece = ascii(text[:SHOWN_MAX])
    return piece + "..." if len(text) > SHOWN_MAX else piece


def mapping(nodes: list[int]) -> str:
    """PMI_process_mapping: runs of (first node, how many nodes, ranks on each).

    >>> mapping([0, 0, 1, 1, 2])
    '(vector,(0,2,2),(2,1,1))'
    """
    runs: list[tuple[int, int]] = []  # node, ranks
    for node in nodes:
        if runs and runs[-1][0] == node:
            runs[-1] = node, runs[-1][1] + 1
        else:
            runs.append((node, 1))
    blocks: list[tuple[int, int, int]] = []
    for node, ranks in runs:
        first, count, each = blocks[-1] if blocks else (0, 0, 0)
        if blocks and each == ranks and node == first + count:
            blocks[-1] = first, count + 1, each
        else:
            blocks.append((node, 1, ranks))
    return "(vector," + ",".join(f"({a},{b},{c})" for a, b, c in blocks) + ")"
