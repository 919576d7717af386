"""Which files are read as one program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dq_client.check import check_source, program_files
from dq_client.check.facts import tree_of
from dq_client.check.linked import MAIN, Source
from dq_client.check.program_files import nearest, program_of_file


def test_what_stands_beside_a_program(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "deep").mkdir(parents=True)
    texts = {
        "beside.py": "import beside, math\nfrom pkg.deep import inner\n",
        "pkg/__init__.py": "from . import core\nfrom .core import value\n",
        "pkg/core.py": "from .deep.inner import x\nvalue = 1\n",
        "pkg/deep/__init__.py": "",
        "pkg/deep/inner.py": "from ..other import y\nx = 2\n",
        "pkg/other.py": "y = 3\n",
        "broken.py": "def\n",
        "unused.py": "",
        "resize_lib.py": "raise SystemExit\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    tree = ast.parse("import beside, broken, resize_lib, numpy\n")
    found = program_of_file(tree, str(tmp_path / "main.py"))
    assert {source.name for source in found} == {
        *("beside", "pkg", "pkg.core", "pkg.deep", "pkg.deep.inner", "pkg.other", MAIN)
    }
    assert found[-1].name == MAIN
    assert {source.name for source in found if source.is_package} == {"pkg", "pkg.deep"}


def source(name: str, text: str) -> Source:
    tree = tree_of(text, f"{name}.py")
    assert tree is not None
    return Source(name, f"{name}.py", tree)


def test_files_far_from_the_main_one_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_files, "LINES_MAX", 60)
    long = "x = 1\n" * 40
    files = [source("far", long), source("near", long), source(MAIN, "import near\n")]
    near, far = nearest(files)
    assert [each.name for each in near] == ["near", MAIN]
    assert [each.name for each in far] == ["far"]
    assert nearest([]) == ([], [])
    huge = [source(MAIN, long * 2)]
    assert nearest(huge) == (huge, [])


def test_check_says_what_a_method_of_another_file_adds_up(tmp_path: Path) -> None:
    (tmp_path / "tally.py").write_text(
        "class Tally:\n    n = 0\n    def add(self, x):\n        self.n += x\n"
    )
    main = (
        "import resize_lib\nfrom tally import Tally\nrs = resize_lib.session()\n"
        "u = rs.array('u', 30)\nt = Tally()\n{}"
        "for step in rs.iterations(9):\n    t.add({})\nprint(rs.comm.allreduce(t.n))\n"
    )
    path = str(tmp_path / "main.py")
    assert check_source(main.format("", "step"), path) == []
    assert check_source(main.format("", "rs.comm.allreduce(u.local.sum())"), path) == []
    own = "size = rs.size\n"
    (found,) = check_source(main.format(own, "size"), path)
    assert (found.code, found.line) == ("kept-number", 6), "what is in the other file is not said"
