"""Options of `dq verify` that make no sense are refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.cli.main import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sizes", "2"], "give two sizes at least"),
        (["--sizes", "2,2"], "give two sizes at least"),
        (["--sizes", "1,x"], "give numbers with commas between"),
        (["--sizes", "1x2,2"], "grids are not drawn"),
        (["--sizes", "1,2,3,4,5,6,7,8,9"], "at most 8 sizes of up to 64 ranks each"),
        (["--sizes", "1,100"], "at most 8 sizes of up to 64 ranks each"),
        (["--start", "4"], "--start 4: it is none of --sizes 1,2,3"),
        (["--tolerance", "nan"], "a relative difference from 0 to below 1"),
        (["--tolerance", "1"], "a relative difference from 0 to below 1"),
        (["--resizes", "0"], "0 is not in the range"),
    ],
)
def test_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    program = tmp_path / "a.py"
    program.write_text("")
    with pytest.raises(SystemExit, match="2"):
        main(["verify", *words, "--", "python", str(program)])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["python", "missing.py"], "missing.py: no such file"),
        (["no-such-interpreter", "a.py"], "no-such-interpreter: no such program"),
        ([], "Missing argument 'PROGRAM...'"),
    ],
)
def test_programs(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["verify", "--", *words])
    assert told in capsys.readouterr().err
