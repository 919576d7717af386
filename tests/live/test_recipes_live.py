"""Programs that link no library of ours, resized by their recipes (docs/recipes.md)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.live import Job, Live

pytestmark = pytest.mark.live

PROGRAM = Path(__file__).with_name("checkpointing.py")
OWN = """
name = "own"
done = '^total [0-9]+'
[progress]
pattern = '^step ([0-9]+)'
[stop]
signal = "USR1"
within_s = 30
[checkpoint]
file = "state.json"
[launch]
command = ["{command}", "--ranks", "{ranks}"]
[go_on]
words = ["--resume", "{checkpoint}"]
[[compare]]
what = "total"
pattern = '^total ([0-9]+)'
"""
RANKS = """
name = "ranks"
done = '^total [0-9]+'
[progress]
pattern = '^step ([0-9]+)'
[stop]
file = "stop-{job}"
within_s = 30
[checkpoint]
file = "state.json"
every = ["--every", "{every_steps}"]
[start]
words = ["--mpi", "--stop-file", "{stop_file}"]
[go_on]
words = ["--mpi", "--stop-file", "{stop_file}", "--resume", "{checkpoint}"]
"""
SLICES = """
name = "slices"
done = '^total [0-9]+'
[progress]
pattern = '^step ([0-9]+)'
[stop]
words = ["--slice", "{slice_s}"]
slice_s = 2
within_s = 30
[checkpoint]
file = "state.json"
[launch]
command = ["{command}", "--ranks", "{ranks}"]
[go_on]
words = ["--resume", "{checkpoint}"]
"""
STEPS = 20


def submitted(
    cluster: Live, folder: Path, recipe: str, *words: Any, options: tuple[Any, ...] = ()
) -> int:
    folder.mkdir(exist_ok=True)
    file = folder / "recipe.toml"
    file.write_text(recipe)
    own = ("--recipe", file, "-n", 1, "--sizes", "1,2,4", "--chdir", folder, *options)
    return cluster.submit(*own, "--", sys.executable, PROGRAM, "--steps", STEPS, *words)


def resize(cluster: Live, job: int, *sizes: int) -> None:
    """To each size in turn, as soon as the program has made progress on the one before."""
    for size in sizes:
        cluster.wait(job, _has_progress)
        cluster.dq("resize", job, size)
        cluster.wait(job, partial(_is_on, size))
    view = cluster.wait(job, _has_progress)
    Path(view["cwd"], "over").touch()


def _is_on(size: int, job: Job) -> bool:
    return bool(job["processors"] == size and job["state"] == "running")


def _has_progress(job: Job) -> bool:
    return bool(job["state"] == "running" and job["sizes"][-1]["iterations"] > 0)


def starts(folder: Path) -> list[tuple[int, int]]:
    """Ranks and first step of each start of the program."""
    lines = (folder / "starts").read_text().splitlines()
    return [(int(ranks), int(step)) for ranks, step in map(str.split, lines)]


def is_right(cluster: Live, job: int, folder: Path) -> Job:
    end = cluster.wait_end(job)
    assert end["state"] == "done", cluster.run("why", job).stdout
    *_, last, total = cluster.dq("logs", job).splitlines()
    steps = int(last.removeprefix("step "))
    assert steps >= STEPS
    assert total == f"total {sum(step * k for step in range(steps) for k in range(12))}"
    assert not list(folder.glob(".dq-*")), "what DQ had made is removed"
    return end


def test_a_program_with_its_own_launcher_goes_on_where_it_stopped(
    ordered: Live, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, "--gated")
    resize(ordered, job, 2, 4, 1)
    end = is_right(ordered, job, folder)
    assert [s["processors"] for s in end["sizes"]] == [1, 2, 4, 1]
    assert all(s["redistribution_time_s"] > 0 for s in end["sizes"][1:])
    assert end["protection"]["how"] == "recipe"
    assert end["argv"][:2] == [sys.executable, str(PROGRAM)]
    found = starts(folder)
    assert [ranks for ranks, _ in found] == [1, 2, 4, 1]
    printed = ordered.dq("logs", job).splitlines()
    steps = [int(line.split()[1]) for line in printed if line.startswith("step")]
    assert steps == list(range(1, len(steps) + 1)), "no step is done twice"


@pytest.mark.mpi
def test_ranks_that_dq_starts_do_the_same(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, RANKS, "--gated")
    resize(ordered, job, 2, 1)
    end = is_right(ordered, job, folder)
    assert [s["processors"] for s in end["sizes"]] == [1, 2, 1]
    assert [ranks for ranks, _ in starts(folder)] == [1, 2, 1]


def test_a_size_on_which_it_fails_is_left_for_the_old_one(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, "--gated", "--fails-on", 2)
    ordered.wait(job, lambda j: j["remap_points"] > 0)
    ordered.dq("resize", job, 2)
    ordered.wait(job, lambda _: "the data" in ordered.dq("why", job))
    (folder / "over").touch()
    end = is_right(ordered, job, folder)
    found = starts(folder)
    assert [ranks for ranks, _ in found] == [1, 1]
    assert end["restarts"] == 0
    assert "its resize failed (" in ordered.dq("why", job)


@pytest.mark.parametrize("recipe", [OWN, RANKS], ids=["own launcher", "ranks"])
def test_a_killed_program_goes_on_from_its_last_checkpoint(
    ordered: Live, tmp_path: Path, recipe: str
) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, recipe, "--every", 5)
    ordered.wait(job, lambda j: j["protection"]["copies"] > 1)
    killed = [p for p in psutil.process_iter(["cmdline", "cwd"])
              if p.info["cwd"] == str(folder) and PROGRAM.name in str(p.info["cmdline"])
              and "resize_lib.recipes" not in p.info["cmdline"]]  # fmt: skip
    assert len(killed) == 1
    killed[0].send_signal(signal.SIGKILL)
    end = is_right(ordered, job, folder)
    assert end["restarts"] == 1
    (_, first), (_, second) = starts(folder)
    assert first == 0
    assert second >= 5
    assert second % 5 == 0


def test_one_that_does_not_stop_keeps_its_size(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    recipe = OWN.replace("within_s = 30", "within_s = 0.5")
    job = submitted(ordered, folder, recipe, "--gated", "--stubborn", "--every", 5)
    ordered.wait(job, lambda j: j["protection"]["copies"] > 0)
    ordered.dq("resize", job, 2)
    ordered.wait(job, lambda j: j["restarts"] == 1 and _has_progress(j))
    (folder / "over").touch()
    end = is_right(ordered, job, folder)
    assert [ranks for ranks, _ in starts(folder)] == [1, 1]
    assert {s["processors"] for s in end["sizes"]} == {1}
    assert "it did not end within 0.5 s" in ordered.dq("why", job)


def test_one_that_stops_without_its_checkpoint_is_not_taken_for_done(
    ordered: Live, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, "--gated", "--forgets", "--every", 1000)
    ordered.wait(job, _has_progress)
    ordered.dq("resize", job, 2)
    ordered.wait(job, lambda j: j["restarts"] == 1 and _has_progress(j))
    (folder / "over").touch()
    is_right(ordered, job, folder)
    assert [ranks for ranks, _ in starts(folder)] == [1, 1]
    assert "it ended without writing" in ordered.dq("why", job)


def test_one_that_begins_again_instead_of_going_on_fails(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, "--gated", "--from-scratch")
    ordered.wait(job, lambda j: j["remap_points"] > 0)
    ordered.dq("resize", job, 2)
    end = ordered.wait_end(job)
    assert end["state"] == "failed"
    assert "was to go on from its checkpoint of iteration" in end["reason"]


def test_checkpoints_at_an_interval_need_no_resize(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, options=("--checkpoint-every", "2s"))
    end = is_right(ordered, job, folder)
    assert end["protection"]["copies"] >= 1
    assert len(starts(folder)) == end["protection"]["copies"] + 1
    assert [s["processors"] for s in end["sizes"]] == [1]


def test_a_program_that_runs_in_slices(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, SLICES, "--gated")
    resize(ordered, job, 2)
    end = is_right(ordered, job, folder)
    assert [s["processors"] for s in end["sizes"]] == [1, 2]
    assert len(starts(folder)) > 2


def test_it_leaves_a_node_that_drains(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    job = submitted(ordered, folder, OWN, "--gated", options=("-n", 2))
    view = ordered.wait(job, lambda j: j["remap_points"] > 0)
    ordered.dq("node", "drain", view["nodes"][0])
    ordered.wait(job, lambda j: view["nodes"][0] not in j["nodes"] and _has_progress(j))
    ordered.dq("node", "resume", view["nodes"][0])
    (folder / "over").touch()
    end = is_right(ordered, job, folder)
    assert end["restarts"] == 0


def test_the_policy_resizes_it_as_any_other(live: Live, tmp_path: Path) -> None:
    live.up(2)
    folder = tmp_path / "work"
    job = submitted(live, folder, OWN, "--gated", options=("--sizes", "1,2"))
    live.wait(job, lambda j: j["processors"] == 2 and _has_progress(j))
    (folder / "over").touch()
    end = is_right(live, job, folder)
    assert [s["processors"] for s in end["sizes"]] == [1, 2]
    assert "on 2: try it" in end["sizes"][0]["reason"]


def test_no_folder_of_an_earlier_job_is_taken_for_its_own(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    last = json.loads(ordered.dq("jobs", "--all", "--json"))["jobs"]
    number = 1 + max((job["id"] for job in last), default=0)
    old = folder / f".dq-recipe-{number}"
    old.mkdir(parents=True)
    (old / "a").write_text('{"step": 30, "total": 1}')
    proven = {"identity": f"{number} another", "place": "a", "step": 30, "unstoppable": ""}
    (old / "proven.json").write_text(json.dumps(proven))
    job = submitted(ordered, folder, OWN, "--gated")
    assert job == number
    resize(ordered, job, 2)
    is_right(ordered, job, folder)


def test_a_recipe_is_tried_with_a_program(live: Live, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    words = [sys.executable, "-m", "dq_client.cli.main", "recipe", "check", "--json", "own.toml"]
    program = [sys.executable, str(PROGRAM), "--steps", "200", "--work", "0.1"]
    found = subprocess.run([*words, "--", *program], cwd=tmp_path, env=live.env,
                           check=False, capture_output=True, text=True)  # fmt: skip
    assert found.returncode == 0, found.stderr
    total = str(sum(step * k for step in range(200) for k in range(12)))
    answer = json.loads(found.stdout)
    assert answer["compared"] == [
        {"what": "total", "plain": total, "resized": total, "equal": True}
    ]
    assert len(answer["resizes_s"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["own.toml"], "the folder stays as it is"


def test_at_its_walltime_it_stops_and_another_job_goes_on(ordered: Live, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    options = ("--walltime", "12s", "-n", 1)
    job = submitted(ordered, folder, OWN, "--gated", options=options)
    end = ordered.wait_end(job)
    assert end["state"] == "failed"
    assert f"dq submit --go-on {job}" in end["reason"]
    (folder / "over").touch()
    next_job = submitted(ordered, folder, OWN, "--gated", options=("--go-on", job))
    assert ordered.wait_end(next_job)["state"] == "done"
    (_, first), (_, second) = starts(folder)
    assert first == 0 < second
    written = [ordered.dq("logs", each).splitlines() for each in (job, next_job)]
    *steps, total = [*written[0], *written[1]]
    assert steps == [f"step {k}" for k in range(1, len(steps) + 1)]
    assert total == f"total {sum(step * k for step in range(len(steps)) for k in range(12))}"
