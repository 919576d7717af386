"""Quick commands stay quick because they import little (TRAPS: what an import costs)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEAR = ("rich", "numpy", "mpi4py", "matplotlib", "asyncio")


@pytest.mark.parametrize("words", [["jobs"], ["job", "1"], ["--help"], ["submit", "--", "true"]])
def test_quick_commands_import_nothing_dear(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv[0] = 'dq'\n"
        "from dq_client.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"DQ_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert "click" in loaded
    assert not loaded.intersection(DEAR)
