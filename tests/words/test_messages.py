"""The words of messages are those of one file, to be read as a whole: a change shows there.

Tests elsewhere compare codes and figures. After a change of words on purpose: `make words`.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.words.messages import GOLDEN, messages, sentences


def test_words_are_as_recorded() -> None:
    found, recorded = (text.splitlines() for text in (messages(), GOLDEN.read_text()))
    assert found == recorded, "if the words changed on purpose: make words"


# In a process of its own: policies of other tests declare reasons, too.
ALL = """
import json
import dq_server.live.server, dq_server.sim.run_command
from dq_server.core.model.reasons import TEMPLATES
print(json.dumps(TEMPLATES))
"""


def test_every_reason_is_among_them() -> None:
    recorded = GOLDEN.read_text().splitlines()
    templates = json.loads(subprocess.check_output([sys.executable, "-c", ALL]))
    missing = [
        code
        for code, text in templates.items()
        if f"{code}: {' '.join(text.split())}" not in recorded
    ]
    assert templates
    assert missing == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("declare(lost='node {node} was lost')", [("lost", "node {node} was lost")]),
        ("raise Refused(f'job {self.job.id} has {len(x)} ranks')",
         [("Refused", "job {id} has {...} ranks")]),
        ("raise e.Refused('no room ' + f'on {node}')", [("Refused", "no room on {node}")]),
        ("raise KeyError('name')", []),
        ("raise", []),
    ],
)  # fmt: skip
def test_what_counts_as_a_sentence(source: str, found: list[tuple[str, str]]) -> None:
    assert list(sentences(ast.parse(source))) == found
