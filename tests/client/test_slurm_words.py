"""What stands in [slurm], what Slurm is told, and what it says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.deploy import batch_settings
from dq_client.deploy.batch.system import Has, HolderRequest, Refusal, TicketPhase, Unclear
from dq_client.deploy.batch_settings import BatchRecord, SlurmTable, left_s, time_s
from dq_client.deploy.cluster import read_cluster
from dq_client.deploy.slurm.allocation import nodes_here, per_node
from dq_client.deploy.slurm.commands import COMMANDS, read_holders
from dq_client.deploy.slurm.script import script, submission

FILE = 'engine = "slurm"\n[pool]\nmax = 4\n'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600), (10, 600), ("0:30", 60), ("1:30", 120), ("1:00:00", 3600), ("2-0", 172800),
        ("1-12:30", 131400), ("1-0:0:59", 86460), ("", None), ("UNLIMITED", None),
    ],
)  # fmt: skip
def test_times_as_sbatch_counts_them(text: str | int, seconds: float | None) -> None:
    assert time_s(text) == seconds


@pytest.mark.parametrize("text", ["10m", "0", "1:2:3:4", "-5", "soon", "1-"])
def test_times_that_sbatch_does_not_know(text: str) -> None:
    with pytest.raises(UsageError, match="as for sbatch --time"):
        time_s(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("9:54", 594), ("1:00:01", 3601), ("2-03:00:00", 183600), ("0:00", 0), ("UNLIMITED", None),
     ("INVALID", None), ("NOT_SET", None), ("", None)],
)  # fmt: skip
def test_what_squeue_says_of_the_time_left(text: str, seconds: float | None) -> None:
    assert left_s(text) == seconds


def test_holders_are_found_by_their_names() -> None:
    lines = [
        "11|dq-ab12-3|RUNNING|1594|9:54|n1|None",
        "12|dq-ab12-4|PENDING|N/A|10:00||Resources",
        "13|dq-ab12-5|TIMEOUT|900|0:00|n2|TimeLimit",
        "14|dq-ffff-6|RUNNING|1594|9:54|n1|None",
        "15|somebody's|RUNNING|1594|9:54|n1|None",
        "16|dq-ab12-7x|RUNNING|1594|9:54|n1|None",
        "17|dq-ab12-8|NEVER_HEARD_OF|1594|9:54|n1|None",
        "18|dq-ab12-9|RUNNING|31536000|UNLIMITED|n1|None",
        "19|dq-ab12-10|COMPLETING|998|0:00|n1|None",
        "garbage",
    ]
    assert read_holders(lines, "ab12", 1000.0) == [
        Has(3, "11", TicketPhase.RUNNING, "Slurm job 11 is running", "n1", 594.0),
        Has(4, "12", TicketPhase.PENDING, "Slurm job 12 is pending (Resources)"),
        Has(5, "13", TicketPhase.ENDED, "Slurm job 13 is timeout (TimeLimit)"),
        Has(8, "17", TicketPhase.ENDED, "Slurm job 17 is never heard of"),
        Has(9, "18", TicketPhase.RUNNING, "Slurm job 18 is running", "n1"),
        Has(10, "19", TicketPhase.REVOKED, "Slurm job 19 is completing", "n1", 29.0),
    ]


ASK = HolderRequest("ab12", [3], 2, "/shared/x y", "/opt/py", "/home/me/dq", 10.0, 2.0)


def test_a_users_lines_come_after_ours_and_count() -> None:
    table = SlurmTable(partition="batch", time="2:00:00", lines=("--mem=4G", "#SBATCH --qos=low"))
    lines = [line for line in script(ASK, table).splitlines() if line.startswith("#SBATCH")]
    assert lines == [
        "#SBATCH --nodes=1", "#SBATCH --ntasks=1", "#SBATCH --cpus-per-task=2",
        "#SBATCH --partition=batch", "#SBATCH --time=2:00:00", "#SBATCH --mem=4G",
        "#SBATCH --qos=low",
    ]  # fmt: skip
    assert "--job-name=dq-ab12-3" in submission(ASK) and "--no-requeue" in submission(ASK)


def test_the_script_is_sound_and_has_no_secret() -> None:
    text = script(ASK, SlurmTable())
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert "'--credentials=/shared/x y/credentials'" in text


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('[slurm]\npartition = "a b"', "one word"),
        ('[slurm]\ntime = "10m"', "as for sbatch --time"),
        ('[slurm]\nlines = ["mem=4G"]', "no option of sbatch"),
        ('[slurm]\nlines = ["--mem=4G\\nrm -rf /"]', "no option of sbatch"),
        ('[slurm]\nfolder = "here"', "a path from /"),
        ("[slurm]\nanswer_within_s = 0.1", "from 1 s to an hour"),
        ('[slurm]\ncolour = "red"', "colour"),
        ('[[nodes]]\nnames = "a"', "are its"),
        ("[slurm]\nmax = 3", r"for several queues, \[\[slurm\]\]"),
        ('[slurm]\nname = "a"', r"for several queues, \[\[slurm\]\]"),
        ('[[slurm]]\ntime = "1"', "1: it needs a name, or a partition"),
        ('[[slurm]]\npartition = "a"\ntime = "10m"', "queue a: .*as for sbatch --time"),
        ('[[slurm]]\npartition = "a"\n[[slurm]]\npartition = "a"', "each a name of its own"),
        ('[[slurm]]\nname = "a"\n[[slurm]]\nname = "b"\nfolder = "/b"', "the same in all"),
        ('[[slurm]]\nname = "a"\ncolour = 1', "slurm entry 1: unknown key 'colour'; .*partition"),
        ('[slurm]\ncolour = 1', "slurm: unknown key 'colour'; .*partition"),
        ('queues = [{ name = "a" }]', r"give each a table \[\[slurm\]\]"),
    ],
)  # fmt: skip
def test_a_cluster_file_that_makes_no_sense(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(FILE + lines)
    with pytest.raises(UsageError, match=said):
        read_cluster(file)


def test_a_pool_needs_an_engine_and_slurm_a_pool(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('engine = "slurm"')
    with pytest.raises(UsageError, match=r"needs \[pool\] max"):
        read_cluster(file)
    file.write_text('engine = "local"\n[pool]\nmax = 3')
    with pytest.raises(UsageError, match='needs engine = "slurm" or "grid_engine"'):
        read_cluster(file)


def test_commands_that_fail_hang_and_are_not_there(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\necho 'bad: error: Invalid account' >&2; exit 1")
    bad.chmod(0o755)
    with pytest.raises(Refusal, match=r"Slurm: .*: Invalid account"):
        COMMANDS.run([str(bad)], 5.0)
    bad.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2; exit 1")
    with pytest.raises(Unclear, match="Unable to contact"):
        COMMANDS.run([str(bad)], 5.0)
    bad.write_text("#!/bin/sh\nsleep 60")
    with pytest.raises(Unclear, match=r"has not answered for 0\.2 s"):
        COMMANDS.run([str(bad)], 0.2)
    with pytest.raises(Refusal, match="is Slurm installed"):
        COMMANDS.run(["sbatch-that-is-nowhere"], 5.0)


def test_slurms_own_variables_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CONF", "/etc/x")
    monkeypatch.setenv("DQ_JOB_KEY", "secret")
    assert {"SLURM_CONF"} == COMMANDS.environment().keys() & {
        "SLURM_JOB_ID", "SLURM_CONF", "DQ_JOB_KEY",
    }  # fmt: skip


def test_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert per_node("4(x2),1") == [4, 4, 1]
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UsageError, match="inside of salloc or sbatch"):
        nodes_here()


def test_several_tables_are_queues_in_the_files_order(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        FILE + '[[slurm]]\npartition = "short"\nmax = 2\n'
        '[[slurm]]\nname = "night"\npartition = "long,all"\ntime = 60'
    )
    batch = read_cluster(file).batch
    assert batch == {
        "short": SlurmTable(partition="short", max=2),
        "night": SlurmTable(name="night", partition="long,all", time=60),
    }
    file.write_text(FILE)
    assert read_cluster(file).batch == {"": SlurmTable()}


def test_the_note_of_a_home_has_one_table_or_those_of_queues(tmp_path: Path) -> None:
    single, home = SlurmTable(partition="a", time="10"), Home(tmp_path)
    for slurm in (single, (single, SlurmTable(name="b"))):
        batch_settings.note(home, BatchRecord("ab12", {"max": 3}, "c.toml", slurm=slurm))
        found = batch_settings.noted(home)
        assert found is not None and found.slurm == slurm and found.table == single
        assert list(found.queues()) == ([""] if slurm is single else ["a", "b"])
