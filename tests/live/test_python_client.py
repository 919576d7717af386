"""DQ from Python: docs/python.md as it stands, and each call against a real server."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client import client as dq
from dq_client.base.errors import NotFound, Refused, Timeout, UsageError
from dq_client.base.home import Home
from dq_client.deploy import local as bringup
from harness.commands import ROOT
from tests.live.browsing import browser, until

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PROGRAM = """
import sys, time
from pathlib import Path
import resize_lib
with resize_lib.session(report_interval_s=0) as rs:
    for turn in rs.iterations():
        time.sleep(0.01)
        if rs.comm.bcast(Path(sys.argv[1]).exists()):
            break
if rs.rank == 0:
    print("ended on", rs.size, flush=True)
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dq.Cluster]:
    config = tmp_path_factory.mktemp("client") / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    with dq.cluster(local=4, config=config) as found:
        yield found


def test_a_job_from_its_submission_to_its_end(here: dq.Cluster, tmp_path: Path) -> None:
    program, stop = tmp_path / "program.py", tmp_path / "stop"
    program.write_text(PROGRAM)
    job = here.submit([sys.executable, program, stop], n=1, sizes=[1, 2, 4], name="mine")
    assert job.id == int(job) == here.job(0).id

    async def story() -> list[dq.Event]:
        return [event async for event in job.events()]

    async def resized() -> list[dq.Event]:
        told = asyncio.create_task(story())
        while job.state != "running" or not job.info["remap_points"]:
            await asyncio.sleep(0.05)
        job.resize(2)
        while len(job.sizes) < 2:
            await asyncio.sleep(0.05)
        stop.touch()
        return await told

    events = asyncio.run(resized())
    assert job.wait(60) == job.state == "done"
    assert [size["processors"] for size in job.sizes] == [1, 2]
    whats = [event.what for event in events]
    assert whats[:2] == ["submit", "start"]
    assert whats[-1] == "done"
    assert "expand" in whats
    assert all(event.job == job.id for event in events)
    assert job.output() == "ended on 2\n"
    assert job.output("err") == ""
    assert job.info["name"] == "mine"
    assert "expand" in [told["what"] for told in job.why()["story"]]
    assert [row["id"] for row in here.jobs()] == [job.id]
    assert here.jobs(active_only=True) == []
    assert [node["state"] for node in here.nodes()] == ["up"] * 4


def test_what_is_asked_of_a_job_in_the_queue(here: dq.Cluster) -> None:
    first = here.submit("sleep 600", n=4, kind="rigid", walltime="10m", env={"MINE": "1"})
    second = here.submit("true", n=4, kind="rigid", after=[first], hold=True)
    assert second.state == "held"
    second.release()
    assert second.state == "waiting"
    second.hold()
    with pytest.raises(Timeout, match=rf"job {second.id} has not ended in 0.2 s; it is held"):
        second.wait(0.2)
    second.kill()
    first.kill()
    assert first.wait() == second.wait() == "killed"
    assert first.reason is not None
    assert "killed by" in first.reason
    array = here.submit("true", n=1, array="0-2")
    assert len(array.members) == 3
    assert {job.wait() for job in array.members} == {"done"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nonsense": 1}, "No such option '--nonsense'"),
        ({"n": 0}, "at least one processor"),
        ({"sizes": [1, "x"]}, "1,x"),
        ({"walltime": "soon"}, "--walltime soon: give more than 0, as 90"),
        ({"after": [10**6]}, "1000000"),
    ],
)
def test_a_mistake_is_the_line_that_the_command_prints(
    here: dq.Cluster, options: dict[str, object], words: str
) -> None:
    before = len(here.jobs())
    with pytest.raises((UsageError, Refused, NotFound), match=re.escape(words)):
        here.submit("true", **options)  # type: ignore[arg-type]
    assert len(here.jobs()) == before
    with pytest.raises(NotFound):
        here.job(10**6)


def test_a_cluster_ends_with_its_block_and_not_with_a_connection() -> None:
    with dq.cluster(local=1) as mine:
        home = mine.home
        with dq.connect(home) as other:
            job = other.submit("sleep 600", n=1)
        assert mine.job(job.id).state in ("queued", "starting", "running")
        with pytest.raises(UsageError, match="was closed"):
            other.jobs()
        with pytest.raises(Refused):
            mine.down()
    assert not home.exists()
    assert bringup.leftovers(Home(home)) == []


@pytest.mark.browser
def test_the_notebook_runs_and_shows_the_pictures_of_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a notebook does: the value of a cell's last line is shown."""
    notebook = json.loads((ROOT / "docs/examples/notebook.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert not [c for c in notebook["cells"] if c.get("outputs")]
    shutil.copy(ROOT / "docs/examples/porting/after/heat.py", tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    values: list[object] = []
    pictures: list[str] = []
    try:
        for cell in cells:
            body = ast.parse(cell).body
            last = ast.unparse(body.pop()) if isinstance(body[-1], ast.Expr) else "None"
            exec(compile(ast.Module(body, []), "notebook.ipynb", "exec"), names)
            values.append(eval(last, names))
            pictures += [v._repr_html_() or "" for v in values[-1:] if hasattr(v, "_repr_html_")]
        assert str(values[2]).startswith("(373, Progress(waiting=0, running=0, done=10, failed=0")
        assert len(pictures) == 2
        found = names["cluster"]
        assert isinstance(found, dq.Cluster)
        assert found._repr_html_() is None  # it was closed: a notebook shows its text
    finally:
        if isinstance(found := names.get("cluster"), dq.Cluster):
            found.close()
    page = tmp_path / "notebook.html"
    page.write_text("".join(pictures))
    with browser() as window:
        window.get(page.as_uri())
        for number, picture in enumerate((".curve", "#gantt")):
            window.switch_to.frame(number)
            drawn = f"document.querySelector('{picture}')?.toDataURL().length"
            until(window, drawn, lambda length: (length or 0) > 5000)
            window.switch_to.default_content()
        window.save_screenshot(str(tmp_path / "notebook.png"))
        assert [line for line in window.get_log("browser") if line["level"] == "SEVERE"] == []


def test_the_page_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 3
    shutil.copy(ROOT / "docs/examples/porting/after/heat.py", tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "done"
    assert f"done the application ended with exit code 0 {['done'] * 10}" in said
    assert said[-1].startswith("done None ")
    assert {path.name for path in tmp_path.glob("*.npy")} == {
        "plate.npy",
        *(f"{k}.npy" for k in "abc"),
    }
