"""`dq doctor` names modules that are installed and cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.cli import doctor_modules
from dq_client.cli.doctor_modules import module_facts

OLD = "raise ImportError('numpy.core.multiarray failed to import')\n"


@pytest.mark.parametrize(
    ("text", "detail", "remedy"),
    [
        (OLD, "ImportError: numpy.core.multiarray failed to import", "pip install 'numpy<2'"),
        ("import none_such\n", "No module named 'none_such'", "install it again"),
        ("import os; os._exit(7)\n", "exit code 7", "install it again"),
    ],
)
def test_one_that_does_not_load_is_named_with_a_remedy(
    text: str, detail: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h5py.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor_modules, "MODULES", ("h5py",))
    (fact,) = module_facts(60.0)
    assert (fact["name"], fact["ok"]) == ("h5py", False)
    assert detail in fact["detail"] and remedy in fact["consequence"]


def test_those_that_load_or_are_not_there_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h5py.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor_modules, "MODULES", ("h5py", "no_such_package.part"))
    assert module_facts(60.0) == []
