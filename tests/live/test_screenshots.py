"""The pictures of the documentation are made by a script, of the real page, terminal, report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="dq web needs the extra web")
pytest.importorskip("textual", reason="dq top needs the extra top")

from harness.commands import ROOT
from tests.live.screenshots import FOLDER, PAGES, shoot

SIZES = {**{name: (width, height) for name, _, width, height in PAGES},
         "top": (1300, 780), "report": (1100, 900)}  # fmt: skip
RUNS = {"sweet-spot", "study-changes"}  # of a run and of a study that take minutes
BYTES_MAX = 150_000


@pytest.mark.live
@pytest.mark.mpi
@pytest.mark.browser
@pytest.mark.slow
def test_the_script_makes_every_picture(tmp_path: Path) -> None:
    from PIL import Image

    made = shoot(tmp_path)
    assert {path.stem for path in made} == SIZES.keys()
    for path in made:
        with Image.open(path) as image:
            assert image.size == SIZES[path.stem]
            assert len(image.convert("RGB").getcolors(1 << 20) or []) > 20, f"{path.name} is empty"
        assert path.stat().st_size < BYTES_MAX


def test_every_picture_is_shown_and_every_shown_one_is_there() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"!\[[^\]]+\]\(images/([\w-]+)\.png\)", text))
    assert shown == SIZES.keys() | RUNS == {path.stem for path in FOLDER.glob("*.png")}
