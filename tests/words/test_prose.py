"""Pages, help texts, docstrings of public names and messages are plain technical English.

Each text may have as many faults as `prose.txt` lists, and a text that is not listed none. Numbers
there only fall: `make words` lowers them after a rewrite.
"""

from __future__ import annotations

import pytest

from tests.words.prose import faults, recorded, texts

TEXTS = texts()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_no_text_has_more_faults_than_before(name: str) -> None:
    found = [f"{rule}: ...{where}..." for rule, where in faults(TEXTS[name])]
    assert len(found) <= recorded().get(name, 0), "\n".join([name, *found])


def test_only_texts_that_exist_are_listed() -> None:
    assert set(recorded()) <= set(TEXTS)


@pytest.mark.parametrize(
    ("sentence", "rules"),
    [
        ("Everything but what is derived of the jobs is kept.", ["clause as a noun"]),
        ("Who leaves writes into the new parts.", ["clause as a noun"]),
        ("The agent tells the server of it.", ["a machine that speaks"]),
        ("It has its share.", ["opens with a pronoun"]),
        ("Ranks of such jobs do so, too.", ["word order"]),
        ("From then on nothing is sent.", ["nobody as the subject"]),
        ("The cluster goes on: it is stopped by X.", ["colon for a conjunction"]),
        ("A user who waits sees what DQ does.", []),
        ("What does it cost? The paper says: a few ms.", []),
        ("Three things: the import, the session, the loop.", []),
        ('`who` and "nobody" are quoted.', []),
    ],
)
def test_what_counts_as_a_fault(sentence: str, rules: list[str]) -> None:
    assert [rule for rule, _ in faults(sentence)] == rules
