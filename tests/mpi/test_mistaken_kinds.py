"""What cannot be, said to arrays and state of each kind; the story is in the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.ranks import OWN, run_job

pytestmark = pytest.mark.mpi
PROGRAM = Path(__file__).with_name("programs") / "session_mistaken_kinds.py"


def test_each_mistake_has_its_words_and_moves_nothing() -> None:
    ended = run_job(OWN, 2, [str(PROGRAM), *OWN.hosts])
    assert ended.code == 0, ended.err
    told = [json.loads(line) for line in ended.out.splitlines()]
    owner, sparse = [t["why"] for t in told if "aborted" in t]
    assert "'p': pack failed: KeyError: 'no such cell'" in owner
    assert "'a': pack failed: DescriptorError: 'a': columns 77 to 77 are outside" in sparse
    assert [t["committed"] for t in told if "committed" in t] == [3, 4]
