"""What stands in [grid_engine], what Grid Engine is told, and what it says.

The files in tests/client/grid_engine are what Son of Grid Engine 8.1.9 has printed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dq_client.base.errors import UsageError
from dq_client.deploy import grid_engine
from dq_client.deploy.batch.system import Has, HolderRequest, Refusal, TicketPhase, Unclear
from dq_client.deploy.batch_settings import GridEngineTable, clock_s
from dq_client.deploy.cluster import read_cluster
from dq_client.deploy.grid_engine import (
    COMMANDS,
    GridEngine,
    phase_of,
    read_holders,
    script,
    submission,
    values,
)

RECORDED = Path(__file__).parent / "grid_engine"
STARTED_S = 1795802804.0  # 2026-11-27T18:06:44 UTC
FILE = 'engine = "grid_engine"\n[pool]\nmax = 4\n'
ASK = HolderRequest("ab12", [7, 8, 9], 2, "/shared/x y", "/opt/py", "/home/me/dq", 0.0, 10.0)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_holders_are_the_tasks_of_the_clusters_jobs() -> None:
    found = read_holders(recorded("holders.xml"), "ab12", STARTED_S + 10, 60.0)
    where = "Grid Engine job 11"
    assert found[:3] == [
        Has(10, "11.10", TicketPhase.REVOKED, f"{where}.10 is in state dr", "vm", 60.0),
        Has(11, "11.11", TicketPhase.RUNNING, f"{where}.11 is in state r", "vm", 590.0),
        Has(12, "11.12", TicketPhase.PENDING, f"{where}.12 is in state qw"),
    ]
    assert [has.key for has in found] == [f"11.{n}" for n in range(10, 18)] + ["12.18"]
    assert read_holders(recorded("holders.xml"), "ffff", STARTED_S, 60.0) == []


def test_one_that_could_not_be_started_has_failed() -> None:
    (has,) = read_holders(recorded("error.xml"), "ab12", STARTED_S, 60.0)
    assert (has.ticket, has.key, has.phase) == (18, "12.18", TicketPhase.FAILED)
    assert has.why == "Grid Engine job 12.18 is in state Eqw"


def test_those_that_have_ended_are_known_for_a_while() -> None:
    found = read_holders(recorded("ended.xml"), "ab12", STARTED_S, 60.0)
    assert {has.phase for has in found} == {TicketPhase.ENDED}
    assert [has.ticket for has in found] == [7, 8, 9, *range(10, 18), 18, 20, 21]


def test_what_is_no_xml_is_no_answer() -> None:
    with pytest.raises(Unclear, match="Grid Engine: qstat -xml prints no XML"):
        read_holders("error: commlib error", "ab12", 0.0, 60.0)


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ("qw hqw hRwq", TicketPhase.PENDING), ("r t Rr s S T hr", TicketPhase.RUNNING),
        ("dr dt dRr ds", TicketPhase.REVOKED), ("Eqw Ehqw", TicketPhase.FAILED),
        ("z dqw", TicketPhase.ENDED),
    ],
)  # fmt: skip
def test_the_letters_of_qstat(states: str, phase: TicketPhase) -> None:
    assert {phase_of(state) for state in states.split()} == {phase}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0:30:00", 1800), ("1::", 3600), ("00:00:10", 10), ("INFINITY", None),
     ("1:30", None), ("", None)],
)  # fmt: skip
def test_times_as_grid_engine_writes_them(text: str, seconds: float | None) -> None:
    assert clock_s(text) == seconds


def test_settings_of_a_queue_also_for_some_hosts() -> None:
    shown = recorded("queue.txt")
    assert values(shown, "notify") == ["00:00:10"] and values(shown, "h_rt") == ["INFINITY"]
    some = "notify   00:01:00,[n1=00:00:10], \\\n         [@big=00:02:00]\n"
    assert values(some, "notify") == ["00:01:00", "00:00:10", "00:02:00"]


def test_several_nodes_are_one_array_whose_tasks_are_their_tickets() -> None:
    words = submission(ASK)
    assert words[words.index("-t") + 1] == "7-9" and words[words.index("-N") + 1] == "dq-ab12"
    assert words[words.index("-o") + 1] == "/shared/x y/holder-$TASK_ID.out"
    assert {"-notify", "-terse"} <= set(words) and words[words.index("-r") + 1] == "n"
    table = GridEngineTable(
        queue="all.q", time="0:30:00", parallel_environment="smp", lines=("#$ -l mem_free=4G",)
    )
    lines = [line for line in script(ASK, table).splitlines() if line.startswith("#$")]
    assert lines == ["#$ -q all.q", "#$ -pe smp 2", "#$ -l h_rt=0:30:00", "#$ -l mem_free=4G"]


def test_the_script_is_sound_and_has_no_secret() -> None:
    text = script(ASK, GridEngineTable())
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert "'--credentials=/shared/x y/credentials'" in text
    assert "--notice=TERM=9s --notice=USR2=9s" in text


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ('Unable to run job: Job was rejected because job requests unknown queue "nosuch.q"\n'
         "Exiting.", Refusal, "Grid Engine: .*: Unable to run job: Job was rejected"),
        ("error: commlib error: got select error (Connection refused)\nerror: unable to send"
         ' message to qmaster using port 33 on host "vm": got send error', Unclear,
         "Grid Engine: .*: error: unable to send message"),
    ],
)  # fmt: skip
def test_what_its_commands_say_when_they_fail(
    tmp_path: Path, said: str, kind: type[Exception], words: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_text(f"#!/bin/sh\ncat >&2 <<E\n{said}\nE\nexit 1")
    bad.chmod(0o755)
    with pytest.raises(kind, match=words):
        COMMANDS.run([str(bad)], 5.0)
    with pytest.raises(Refusal, match="is Grid Engine installed"):
        COMMANDS.run(["qsub-that-is-nowhere"], 5.0)


@pytest.mark.parametrize(
    ("said", "raises"),
    [
        ('denied: job "14" does not exist', False), ("job 14 is already in deletion", False),
        ('denied: "me" may not delete job 14', True),
    ],
)  # fmt: skip
def test_ending_what_has_ended_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, raises: bool
) -> None:
    qdel = tmp_path / "qdel"
    qdel.write_text(f"#!/bin/sh\necho '{said}'; exit 1")
    qdel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    engine = GridEngine(GridEngineTable())
    if not raises:
        engine.cancel(["14.1"])
        return
    with pytest.raises(Refusal, match="Grid Engine: qdel: denied"):
        engine.cancel(["14.1"])


def test_where_grid_engine_is_stays_and_the_job_that_this_runs_in_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SGE_ROOT", "SGE_TASK_ID", "JOB_ID", "DQ_JOB_KEY"):
        monkeypatch.setenv(name, "7")
    monkeypatch.delenv("TZ", raising=False)
    found = COMMANDS.environment()
    assert "TZ" not in found, "qsub hands it to jobs"
    assert found["SGE_ROOT"] == "7" and not {"SGE_TASK_ID", "JOB_ID", "DQ_JOB_KEY"} & found.keys()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('[grid_engine]\nqueue = "a b"', "one word"),
        ('[grid_engine]\ntime = "10m"', "as for qsub -l h_rt"),
        ('[grid_engine]\nlines = ["mem=4G"]', "no option of qsub"),
        ('[grid_engine]\nfolder = "here"', "a path from /"),
        ("[slurm]\n", r'\[slurm\] needs engine = "slurm"'),
        ('[[nodes]]\nnames = "a"', "are its"),
    ],
)
def test_a_cluster_file_that_makes_no_sense(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(FILE + lines)
    with pytest.raises(UsageError, match=said):
        read_cluster(file)


def test_of_several_processors_a_node_needs_an_environment_that_keeps_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"-spl": "smp\nmpi\n", "-sp": "pe_name mpi\nallocation_rule $fill_up\n",
             "-sq": recorded("queue.txt"), "-sel": "n1\nn2\n"}  # fmt: skip
    monkeypatch.setattr(
        grid_engine.GridEngine, "_run", lambda self, *words: shown[words[1]]
    )  # fmt: skip
    with pytest.raises(UsageError, match="Grid Engine has smp, mpi"):
        GridEngine(GridEngineTable()).site(2)
    spread = GridEngine(GridEngineTable(parallel_environment="mpi"))
    with pytest.raises(UsageError, match=r"allocation_rule \$pe_slots"):
        spread.site(2)
    site = GridEngine(GridEngineTable()).site(1)
    assert (site.nodes, site.kill_wait_s, site.lasts_s) == (["n1", "n2"], 10.0, None)
