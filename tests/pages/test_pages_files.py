"""Blocks on the pages that are files: each is read by what reads it from a user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dq_client.base.recipes import recipe as recipes
from dq_client.deploy.cluster import read_cluster
from dq_client.show.hooks import config as hooks
from dq_server.live.configuration import read_config
from harness.c_programs import Workshop, no_libdq, no_scalapack
from harness.commands import ROOT
from harness.pages import Block
from tests.pages.owners import OWNERS, of, owned

EXCERPTS = [(block, owner) for block, owner in owned().items() if (ROOT / owner).is_file()]
COMMENT = re.compile(r"/\*.*?\*/|(?:#|//|!) .*")
# Around what the page on C says of ScaLAPACK.
AROUND_C = """
#include "dq.h"
void pdgetrf_(const int *, const int *, double *, const int *, const int *, const int *, int *,
              int *);
int main(int argc, char **argv)
{{
    int n = 8, one = 1, info, pivots[16];
    double *a;
    dq_t *dq = dq_open(&argc, &argv);
    dq_block_cyclic(dq, "A", &a, n, n, 4, 4, DQ_DOUBLE);
    dq_loop(dq, 2);
    while (dq_next(dq)) {{
        if (dq_step(dq) == 0) for (int i = 0; i < n * n; i++) a[i] = i % (n + 1) == 0;
        {block}
        if (info || ictxt < 0) return 3;
    }}
    dq_close(dq);
    return 0;
}}
"""


def written(block: Block, folder: Path, before: str = "") -> Path:
    file = folder / "block.toml"
    file.write_text(before + block.text)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("block", of("config"), ids=str)
def test_a_configuration_is_one(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")  # policies that a page shows
    assert read_config(written(block, tmp_path), required=True)


@pytest.mark.parametrize("block", of("cluster"), ids=str)
def test_a_cluster_file_is_one(block: Block, tmp_path: Path) -> None:
    before = "" if "engine" in block.text else 'engine = "slurm"\n'
    assert read_cluster(written(block, tmp_path, before)).where


@pytest.mark.parametrize("block", of("hooks"), ids=str)
def test_a_file_of_hooks_is_one(block: Block, tmp_path: Path) -> None:
    (tmp_path / "tell.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tell.sh").chmod(0o755)
    assert [hook.name for hook in hooks.read(written(block, tmp_path))] == ["mail", "chat"]


@pytest.mark.parametrize("block", of("recipe"), ids=str)
def test_a_recipe_is_one(block: Block, tmp_path: Path) -> None:
    assert recipes.read(str(written(block, tmp_path))).name == "mine"


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_prometheus_is_told_where_and_with_what(block: Block) -> None:
    (job,) = yaml.safe_load(block.text)["scrape_configs"]
    assert job["authorization"] == {"credentials": "TOKEN"}, "as a Bearer token, which is checked"
    assert job["static_configs"] == [{"targets": ["127.0.0.1:PORT"]}]


def lines_of(text: str) -> list[str]:
    """Statements, without comments, blanks and the `...` of an excerpt."""
    found = (" ".join(line.split()) for line in COMMENT.sub("", text).splitlines())
    return [line for line in found if line not in ("", "...")]


@pytest.mark.parametrize(("block", "source"), EXCERPTS, ids=[str(block) for block, _ in EXCERPTS])
def test_an_excerpt_is_of_a_file_that_runs(block: Block, source: str) -> None:
    there = iter(lines_of((ROOT / source).read_text()))
    for line in lines_of(block.text):
        assert line in there, f"{source} has no {line!r} behind the lines before"


@pytest.mark.full
@pytest.mark.skipif(bool(no_libdq() or no_scalapack()), reason=no_libdq() or no_scalapack())
@pytest.mark.parametrize("block", of("compile"), ids=str)
def test_a_part_in_c_compiles(block: Block, tmp_path: Path) -> None:
    source = tmp_path / "part.c"
    source.write_text(AROUND_C.format(block=block.text))
    assert Workshop.opened(tmp_path).compile(source, scalapack=True)


def test_every_owner_is_one() -> None:
    runners = {"shell", "job", "ranks", "client", "config", "cluster", "hooks", "yaml", "compile",
               "lab", "lab-standby", "slurm", "install", "other-mpi", "page", "recipe",
               "study"}  # fmt: skip
    for page, owners in OWNERS.items():
        for owner in owners:
            known = owner in runners or (ROOT / owner).is_file()
            assert known or owner.startswith("- "), f"{page}: nobody runs {owner!r}"


def test_an_excerpt_that_has_changed_is_noticed() -> None:
    assert lines_of("a = 1 /* one */\n...\nb  =  2 # two\n") == ["a = 1", "b = 2"]
