"""The rules by which programs name the sizes they can run on, and options that are none."""

from __future__ import annotations

from typing import Any

import pytest

from resize_lib.legal import LARGEST, LegalSizesError, legal_sizes
from resize_lib.mistakes import Mistake
from resize_lib.session_options import Options


@pytest.mark.parametrize(
    ("rule", "sizes"),
    [
        (None, ()),
        (("divides", 12), (1, 2, 3, 4, 6, 12)),
        ("divides 12", (1, 2, 3, 4, 6, 12)),
        ([4, 2, 2, 9], (2, 4, 9)),
        ({1, 3}, (1, 3)),
        (range(2, 5), (2, 3, 4)),
        ((5, 7), (5, 7)),
        (lambda size: size in (1, 4, 9), (1, 4, 9)),
    ],
)
def test_a_rule_gives_sizes(rule: Any, sizes: tuple[int, ...]) -> None:
    assert legal_sizes(rule) == sizes


def test_endless_rules_end() -> None:
    assert legal_sizes("powers")[:5] == (1, 2, 4, 8, 16)
    assert legal_sizes("powers of two") == legal_sizes("powers")
    assert legal_sizes("multiples of 4")[:2] == (4, 8)
    assert legal_sizes(("multiples", 3))[:3] == (3, 6, 9)
    assert legal_sizes(("multiples", 3))[-1] == LARGEST // 3 * 3


@pytest.mark.parametrize(
    "rule", ["squares", 4, ("divides", 2.5), ("divides", "n"), object(), ["a"]]
)
def test_what_is_no_rule_is_refused(rule: Any) -> None:
    with pytest.raises(LegalSizesError, match="powers"):
        legal_sizes(rule)


@pytest.mark.parametrize("rule", [[], lambda _: False, [LARGEST + 1]])
def test_a_rule_that_allows_nothing_is_refused(rule: Any) -> None:
    with pytest.raises(LegalSizesError, match="allows no size"):
        legal_sizes(rule)


@pytest.mark.parametrize("rule", [[0], ("divides", 0), [-2]])
def test_sizes_are_at_least_one(rule: Any) -> None:
    with pytest.raises(LegalSizesError, match="at least 1"):
        legal_sizes(rule)


def test_an_unknown_option_of_a_session_is_named_with_those_there_are() -> None:
    with pytest.raises(Mistake) as raised:
        Options.of(legal=None, checksums=True)
    assert str(raised.value).endswith(
        "session() has no option 'checksums'; it has connect, legal, report_interval_s"
    )
    assert "test_legal_sizes.py:" in str(raised.value)
