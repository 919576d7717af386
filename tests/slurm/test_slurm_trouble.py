"""A Slurm that says no, or nothing; nodes that never report; killed servers; allocations."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dq_client.base.home import Home, is_alive
from dq_client.deploy.local import leftovers
from tests.on_batch_system import Fake, killed_while_it_asks
from tests.slurm.minislurm import MiniSlurm
from tests.slurm.on_slurm import OnSlurm

pytestmark = [pytest.mark.live, pytest.mark.slurm]

SHORT = ("--kind", "rigid", "--walltime", "5m", "--", "true")
KILLS = 20


@pytest.fixture
def sbatch(on_slurm: OnSlurm, tmp_path: Path) -> Fake:
    return Fake(on_slurm, tmp_path, "sbatch")


def test_a_refusal_is_told_and_tried_again(on_slurm: OnSlurm, sbatch: Fake) -> None:
    sbatch.does('echo "sbatch: error: Batch job submission failed: Invalid account" >&2; exit 1')
    on_slurm.up_with("retry_s = 1\nretry_max_s = 1")
    job = on_slurm.submit("-n", 1, *SHORT)
    on_slurm.until(lambda: "Invalid account" in on_slurm.why(job))
    assert "Invalid account" in on_slurm.pool()["refused"]["why"]
    sbatch.gone()
    assert on_slurm.wait_end(job)["state"] == "done"


def test_an_sbatch_that_never_ends_keeps_nobody_waiting(
    on_slurm: OnSlurm, sbatch: Fake, tmp_path: Path
) -> None:
    noted = tmp_path / "pid"
    sbatch.does(f"echo $$ > {noted}.new; mv {noted}.new {noted}; exec sleep 1000")
    on_slurm.up_with("retry_s = 1\nretry_max_s = 1", 'time = "30"\nanswer_within_s = 10')
    job = on_slurm.submit("-n", 1, *SHORT)

    def answered_meanwhile() -> bool:
        pid = int(noted.read_text()) if noted.exists() else 0
        on_slurm.nodes()
        return pid > 0 and is_alive(pid)

    on_slurm.until(answered_meanwhile)
    on_slurm.until(lambda: "sbatch has not answered for 10 s" in on_slurm.why(job))
    sbatch.gone()
    assert on_slurm.wait_end(job)["state"] == "done"
    assert len(on_slurm.holders()) == 1


def test_a_node_that_never_reports_is_given_up(on_slurm: OnSlurm, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 1000")
    python.chmod(0o755)
    on_slurm.up_with("start_within_s = 2", f'time = "30"\npython = "{python}"')
    on_slurm.submit("-n", 1, *SHORT)
    on_slurm.until(lambda: "starting" in on_slurm.nodes().values())
    on_slurm.until(lambda: not on_slurm.holders())
    assert "its node has not joined" in str(on_slurm.pool()["decisions"])
    on_slurm.until(lambda: not on_slurm.pool()["tickets"])


def test_an_agent_that_cannot_start_says_why(on_slurm: OnSlurm, tmp_path: Path) -> None:
    on_slurm.up_with("", f'time = "30"\npython = "{tmp_path}/nowhere"')
    job = on_slurm.submit("-n", 1, *SHORT)
    on_slurm.until(lambda: "No such file or directory" in on_slurm.why(job))


def test_while_the_controller_is_away_jobs_go_on_and_nothing_grows(
    on_slurm: OnSlurm, slurm: MiniSlurm
) -> None:
    on_slurm.up_with("", 'time = "30"\nanswer_within_s = 3')
    first = on_slurm.submit("-n", 1, "--kind", "rigid", "--", "sleep", 12)
    on_slurm.wait(first, lambda j: j["state"] == "running")
    slurm.stop_controller()
    try:
        second = on_slurm.submit("-n", 1, *SHORT)
        on_slurm.until(lambda: "not granted yet" in on_slurm.why(second))
        assert on_slurm.wait_end(first)["state"] == "done"
    finally:
        slurm.start_controller()
    assert on_slurm.wait_end(second)["state"] == "done"


def test_a_server_that_is_killed_while_it_asks_loses_and_leaks_nothing(
    on_slurm: OnSlurm, sbatch: Fake
) -> None:
    """Twenty times."""
    killed_while_it_asks(on_slurm, sbatch, "sbatch", on_slurm.held, KILLS)
    assert max(d["ticket"] for d in on_slurm.pool()["decisions"]) > 3


def test_the_nodes_of_an_allocation(on_slurm: OnSlurm, slurm: MiniSlurm) -> None:
    script = on_slurm.home.root.parent / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=3 --ntasks=3 --time=10\n"
        "dq up --cluster slurm --detach || exit 1\n"
        "dq nodes --json > nodes.json\n"
        "dq submit -n 1 --sizes 1,3 --wait --"
        " python -m apps.matmul --n 300 --iterations 30 --check\n"
        "dq logs last > result.json\n"
        "dq down\n"
    )
    folder = script.parent
    env = " ".join(f"{name}={on_slurm.env[name]}" for name in ("PATH", "DQ_HOME"))
    job = slurm.run("env", *env.split(" "), "sbatch", "--parsable", f"--chdir={folder}",
                    f"--output={folder}/out", script)  # fmt: skip
    on_slurm.slurm_ended(int(job))
    said = (folder / "out").read_text()
    assert (folder / "result.json").exists(), said
    nodes = json.loads((folder / "nodes.json").read_text())["nodes"]
    assert [(n["name"], n["state"], n["processors"]) for n in nodes] == [
        ("n1", "up", 1), ("n2", "up", 1), ("n3", "up", 1),
    ]  # fmt: skip
    assert all(0 < n["until_s"] - time.time() <= 600 for n in nodes)
    assert json.loads((folder / "result.json").read_text().splitlines()[-1])["ok"]


def test_outside_of_an_allocation_it_says_what_to_do(on_slurm: OnSlurm) -> None:
    on_slurm.env.pop("SLURM_JOB_ID", None)
    done = on_slurm.run("up", "--cluster", "slurm", "--detach")
    assert done.returncode == 2 and "inside of salloc or sbatch" in done.stderr
    file = on_slurm.home.root.parent / "c.toml"
    file.write_text('engine = "slurm"\n[pool]\nmax = 2\n[slurm]\npartition = "gone"\n')
    done = on_slurm.run("up", "--cluster", file, "--detach")
    assert done.returncode == 2 and "'gone': Slurm has all, urgent" in done.stderr
    file.write_text('engine = "slurm"\n[pool]\nmax = 2\ncolour = 3\n[slurm]\n')
    done = on_slurm.run("up", "--cluster", file, "--detach")
    assert done.returncode == 2 and f"{file}: unknown setting 'colour' in [pool]" in done.stderr


@pytest.mark.parametrize("slurm", ["linuxproc", "cgroup"], indirect=True, scope="module")
def test_two_batch_scripts_at_once_have_a_cluster_each(on_slurm: OnSlurm, slurm: MiniSlurm) -> None:
    """As in docs/slurm.md, and with one DQ_HOME: each finds its own, and ends no other.

    The second one forgets `dq down` and a running job: all of it ends with its allocation. Without
    control groups Slurm does not find the server, which notices the end itself.
    """
    folder = on_slurm.home.root.parent
    script = folder / "two.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks=2 --time=10\n"
        "cd $1; dq up --cluster slurm --detach || exit 1\n"
        "touch up; while [ ! -e ../one/up -o ! -e ../two/up ]; do sleep .2; done\n"
        "dq nodes --json > nodes.json\n"
        "dq submit -n 1 --sizes 1,2 --wait --"
        " python -m apps.matmul --n 300 --iterations 20 --check || exit 2\n"
        "dq jobs --all --json > jobs.json\n"
        "other=$(ls -d $DQ_HOME/allocations/* | grep -v -- -$SLURM_JOB_ID'$')\n"
        "DQ_HOME=$other dq jobs 2> refused; echo $? > code\n"
        "if [ $(basename $1) != two ]; then dq down; exit; fi\n"
        "dq submit -n 2 -- sleep 1000; until dq jobs | grep -q running; do sleep .2; done\n"
        "touch left\n"
    )
    env = [f"{name}={on_slurm.env[name]}" for name in ("PATH", "DQ_HOME")]
    jobs = {}
    for name in ("one", "two"):
        (folder / name).mkdir()
        words = ["sbatch", "--parsable", f"--output={folder / name}/out", script, folder / name]
        jobs[name] = int(slurm.run("env", *env, *words))
    on_slurm.slurm_ended(*jobs.values())
    seen = []
    for name in jobs:
        said = (folder / name / "out").read_text()
        assert (folder / name / "code").exists(), said
        assert (folder / name / "code").read_text() == "2\n"
        assert "home of another allocation" in (folder / name / "refused").read_text()
        nodes = json.loads((folder / name / "nodes.json").read_text())["nodes"]
        seen += [n["name"] for n in nodes if n["state"] == "up"]
        (job,) = json.loads((folder / name / "jobs.json").read_text())["jobs"]
        assert (job["id"], job["state"]) == (1, "done"), said
    assert sorted(seen) == ["n1", "n2", "n3", "n4"]
    assert (folder / "two" / "left").exists()
    homes = [Home(home) for home in (on_slurm.home.root / "allocations").iterdir()]
    assert len(homes) == 2
    on_slurm.until(lambda: not any(map(leftovers, [on_slurm.home, *homes])))


def test_slurms_memory_limit_is_the_nodes_memory(on_slurm: OnSlurm) -> None:
    on_slurm.up_with("min = 1", 'time = "30"\nlines = ["--mem=300M"]')
    on_slurm.until(lambda: list(on_slurm.nodes().values()) == ["up"])
    (node,) = json.loads(on_slurm.dq("nodes", "--json"))["nodes"]
    assert node["memory"] == 300 << 20
