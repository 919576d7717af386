"""DQ's own ranks without a cluster, for tests and benchmarks:

    python -m harness.standalone -n 4 [--hosts n01,n02] [--exec] [--label] [--input FILE] -- \
        python app.py ARGS [: -n 2 other ARGS]

A small stand-in for the agents of these hosts: a keeper for each, whose messages to each other it
passes on. A program that expands (`await` with hosts) is given the ranks it asks for, on any host.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from dq_client.node.launcher import Json, Standalone

FIRST_SPAWNED = 1_000_000


class ManyHosts(Standalone):
    """One job on named hosts of this machine, with worlds that join it and worlds it spawns."""

    def __init__(self, folder: Path, programs: list[list[str]], *, forks: bool) -> None:
        super().__init__(folder, programs, forks=forks)
        self._joining = set[str]()  # worlds that were started to join the job
        self._spawned: set[tuple[str, int]] = set()  # host and ticket

    def _goes_on(self, host: str, world: str) -> bool:
        """Whether the job needs it: ranks that wait to join do not keep it from ending."""
        known = self._states[host]["worlds"].get(world)
        if world in self._joining and (known is None or not known["part"]):
            return False
        return super()._goes_on(host, world)

    def _hear(self, host: str, message: Json) -> None:
        super()._hear(host, message)
        if "relay" in message:
            target = self._lines.get(message["relay"])
            if target is not None:
                target.send({"do": "relayed", "data": message["data"]})
        elif "await" in message:
            self._grow(message["await"])
        elif "spawn" in message:
            self._spawn(host, message["spawn"])

    def _grow(self, asked: Json) -> None:
        hosts, world = asked.get("hosts"), asked["await"]
        if not hosts or any(str(world) in worlds for worlds in self._begun.values()):
            return
        self._joining.add(str(world))
        argv, cwd = asked.get("argv") or self._programs[0], asked.get("cwd") or str(Path.cwd())
        self._start(world, hosts, [argv], cwd, root=asked["node"], joins=True)

    def _spawn(self, host: str, asked: Json) -> None:
        if (host, asked["ticket"]) in self._spawned:
            return  # said again: the answer is on its way
        self._spawned.add((host, asked["ticket"]))
        many = len(asked["program_of"])
        named = [h for h in asked["info"].get("hosts", "").split(",") if h]
        hosts = named or [asked["node"]] * many
        why = "" if len(hosts) == many else f"{many} ranks for {len(hosts)} hosts"
        self._lines[host].send({"do": "spawn", "ticket": asked["ticket"], "why": why})
        if why:
            return
        self._start(
            FIRST_SPAWNED + len(self._spawned),
            hosts,
            asked["programs"],
            asked["cwd"],
            program_of=asked["program_of"],
            spawned=True,
            keys=asked["keys"],
        )


def main() -> int:
    """The job's exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.standalone", description=__doc__)
    parser.add_argument("-n", type=int, default=1, help="ranks")
    parser.add_argument("--hosts", default="localhost", help="names; ranks are dealt in blocks")
    parser.add_argument("--exec", action="store_true", help="without a starter")
    parser.add_argument("--label", action="store_true", help="the rank before each line")
    parser.add_argument("--input", default="", help="standard input of rank 0")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = options.program[1:] if options.program[:1] == ["--"] else options.program
    try:
        programs, program_of = parts(options.n, words)
    except ValueError as e:
        parser.error(str(e))
    names = options.hosts.split(",")
    each = -(-len(program_of) // len(names))
    hosts = [names[rank // each] for rank in range(len(program_of))]
    more = {"label": options.label, "input": options.input}
    with tempfile.TemporaryDirectory(prefix="dq-ranks-") as folder:
        job = ManyHosts(Path(folder), programs, forks=not options.exec)
        return job.run(hosts, program_of, **more)


def parts(first: int, words: list[str]) -> tuple[list[list[str]], list[int]]:
    """The programs of `prog ARGS : -n 2 other ARGS`, and which of them each rank runs."""
    programs: list[list[str]] = [[]]
    counts = [first]
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word != ":":
            programs[-1].append(word)
        elif len(rest) > 1 and rest[0] == "-n" and rest[1].isdigit():
            programs.append([])
            counts.append(int(rest[1]))
            del rest[:2]
        else:
            raise ValueError("after ':' comes -n RANKS")
    if not all(programs) or min(counts) < 1:
        raise ValueError("a program and at least one rank are needed")
    return programs, [i for i, count in enumerate(counts) for _ in range(count)]


if __name__ == "__main__":
    sys.exit(main())
