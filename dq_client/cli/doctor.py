"""`dq doctor`: checks of this machine and its MPI, each with its consequence for jobs."""

from __future__ import annotations

import platform
import re
import resource
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import psutil

from dq_client.base import storage
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.cli.requests import json_option
from dq_client.deploy.cluster import read_cluster, usable_cores
from dq_client.deploy.ssh.machine import SHARED_MEMORY
from dq_client.examples import cluster_file
from dq_client.node.mpi_probe import ProbeResult, probe_mpi
from dq_client.show.output import note, print_json, say

FEW_FILES = 4096  # mpiexec leaks about three descriptors at every spawn


def machine_facts() -> list[dict[str, Any]]:
    """Checks that start no process; each has name, ok, detail and consequence."""
    version = platform.python_version()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = files != resource.RLIM_INFINITY and files < FEW_FILES
    facts = [
        _fact("Python", sys.version_info >= (3, 11), version, "DQ needs Python 3.11 or newer"),
        _fact("cores", True, f"{usable_cores()} usable", ""),
        _fact(
            "open files", not few, f"hard limit {files}",
            "a job that is resized hundreds of times may run out of them: raise ulimit -n",
        ),
    ]  # fmt: skip
    return [*facts, _home_fact(), memory_fact(SHARED_MEMORY)]


def _fact(name: str, ok: bool, detail: str, otherwise: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail, "consequence": "" if ok else otherwise}


def _home_fact() -> dict[str, Any]:
    home = Home.default()
    try:
        home.create()
    except DQError as e:
        return _fact("DQ_HOME", False, str(e), "no cluster can be started here")
    if why := storage.fault(home.root):
        return _fact("DQ_HOME", False, why, "no cluster can be started, and one that runs stalls")
    return _fact("DQ_HOME", True, str(home.root), "")


def memory_fact(folder: Path) -> dict[str, Any]:
    """Whether programs that were killed have left memory behind in which others will hang.

    A program that is started without a launcher calls its shared memory mpich_shm_PID_0, PID in
    hexadecimal digits. If the name is there, MPICH takes it for a rank's that came before.
    """
    names = " ".join(path.name for path in folder.glob("mpich_shm_*"))
    pids = [int(digits, 16) for digits in re.findall(r"\bmpich_shm_([0-9a-f]+)_0\b", names)]
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    left = sum(pid <= most and not psutil.pid_exists(pid) for pid in pids)
    detail = f"files of ended MPI programs in {folder}: {left or 'none'}"
    otherwise = (
        "python app.py hangs or fails in MPI_Init if it gets the process number of one; when no MPI"
        f" program runs: rm {folder}/mpich_shm_*"
    )
    return _fact("shared memory", not left, detail, otherwise)


def as_fact(result: ProbeResult) -> dict[str, Any]:
    """The result of an MPI trial in the form of a check."""
    return {
        "name": result.name,
        "ok": result.ok,
        "detail": result.detail,
        "consequence": result.consequence,
    }


def clean_up(as_json: bool) -> int:
    """`--clean`: remove what killed contained clusters have left, and print it."""
    from dq_client.cli.doctor_emulation import clean_leftovers

    found = clean_leftovers()
    if as_json:
        print_json(removed=[{"tag": f.tag, "what": f.what} for f in found])
    else:
        say("\n".join(f"removed contained cluster {f.tag}: {f.what}" for f in found) or "clean")
    return 0


def numbers_of_nodes(text: str) -> tuple[int, ...]:
    """The value of `--busy`, such as "1,9,36"."""
    try:
        counts = tuple(int(word) for word in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--busy {text!r}: numbers of nodes, such as 1,9,36")
    return counts


def check_hosts(file: str, as_json: bool) -> int:
    """`--cluster`; exit code 1 if a host cannot be used."""
    from dq_client.deploy.ssh.bringup import examine

    cluster = read_cluster(cluster_file(file))
    if cluster.engine != "hosts":
        raise UsageError(f"{file}: engine = {cluster.engine!r} has no hosts to check")
    found = sorted(examine(cluster), key=lambda f: f.host.name)
    good = not any(f.problem for f in found)
    if as_json:
        rows = [{"name": f.host.name, "ok": not f.problem, "problem": f.problem,
                 "facts": None if f.facts is None else msgspec.to_builtins(f.facts)}
                for f in found]  # fmt: skip
        print_json(ok=good, hosts=rows)
        return 0 if good else 1
    for f in found:
        facts = f.facts
        if f.problem or facts is None:
            say(f"NO  {f.problem}")
        else:
            say(
                f"ok  {f.host.name}: {facts.processors} processors, {facts.interface}"
                f" ({facts.address}), {facts.library}, files in {facts.home}"
            )
        for text in facts.notes if facts is not None else ():
            say(f"    {text}")
    return 0 if good else 1


def measure_emulation(file: str, fidelity: str, busy: tuple[int, ...], as_json: bool) -> int:
    """`--emulation`; exit code 1 if a node or link deviates too much from the cluster file."""
    from dq_client.cli.doctor_emulation import print_emulation, run_emulation_doctor

    cluster = read_cluster(cluster_file(file))
    report = run_emulation_doctor(cluster, fidelity=fidelity, busy=busy, say=note)
    if as_json:
        print_json(**report)
    else:
        say(print_emulation(report))
    return 0 if report["ok"] else 1


@click.command()
@click.option("--limit", type=float, default=30.0, help="Seconds for each trial of the MPI.")
@click.option("--cluster", "hosts", help="Check the hosts of this cluster file, by ssh.")
@click.option("--emulation", "cluster", help="Measure the emulated nodes of this cluster file.")
@click.option(
    "--fidelity",
    type=click.Choice(["paced", "contained", "auto"]),
    default="paced",
    help="How emulated nodes are slowed (docs/emulation.md).",
)
@click.option("--busy", default="1,9,36", help="With --emulation: nodes that compute at once.")
@click.option("--clean", is_flag=True, help="Remove what killed contained clusters have left.")
@json_option
def doctor(
    limit: float,
    hosts: str | None,
    cluster: str | None,
    fidelity: str,
    busy: str,
    clean: bool,
    as_json: bool,
) -> int:
    """Try what this machine and its MPI can do. Exit code 1 if no job can be resized here."""
    if clean:
        return clean_up(as_json)
    if hosts is not None:
        return check_hosts(hosts, as_json)
    if cluster is not None:
        return measure_emulation(cluster, fidelity, numbers_of_nodes(busy), as_json)
    from dq_client.cli.doctor_modules import module_facts
    from dq_client.cli.doctor_mpi import Way, said, way_of
    from dq_client.cli.doctor_ranks import c_fact, rank_facts

    facts = machine_facts()
    note("starting ranks, and trying what this MPI can do, each trial in processes of its own")
    ranks = rank_facts(limit)
    results = probe_mpi(limit)
    facts += [*ranks, *(as_fact(r) for r in results), c_fact(limit), *module_facts(limit)]
    way = way_of(ranks, results)
    good = way is not Way.NONE
    if as_json:
        print_json(ok=good, resize=str(way), checks=facts)
        return 0 if good else 1
    width = max(len(f["name"]) for f in facts)
    for fact in facts:
        say(f"{'ok  ' if fact['ok'] else 'NO  '}{fact['name']:{width}}  {fact['detail']}")
        if fact["consequence"]:
            say(f"    {'':{width}}  → {fact['consequence']}")
    say()
    say(said(way, ranks))
    return 0 if good else 1
