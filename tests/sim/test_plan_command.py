"""`dq sim plan`: the contract, the table and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile
from dq_server.sim.cli import sim
from dq_server.sim.evolution import plan_offline
from dq_server.sim.plan_command import as_json

# On three nodes the first takes all until 10; the third's one node fits beside the second's two.
QUEUE = [[[10, 3]], [[5, 2]], [[4, 1], [2, 2], [3, 3]]]


def plan(tmp_path: Path, text: str, *options: str) -> Result:
    path = tmp_path / "profiles.json"
    path.write_text(text)
    return CliRunner().invoke(sim, ["plan", str(path), *options])


@pytest.mark.parametrize(
    ("fit", "starts", "steps", "makespan"),
    [
        ("rigid", [0, 10, 15], [[[10, 3]], [[5, 2]], [[9, 3]]], 24),
        ("noX", [0, 10, 11], [[[10, 3]], [[5, 2]], [[4, 1], [2, 2], [3, 3]]], 20),
        ("2X", [0, 10, 11], [[[10, 3]], [[5, 2]], [[4, 1], [2, 2], [3, 3]]], 20),
    ],
)
def test_the_contract(
    tmp_path: Path, fit: str, starts: list[int], steps: list[list[list[int]]], makespan: int
) -> None:
    done = plan(tmp_path, json.dumps(QUEUE), "--nodes", "3", "--fit", fit, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "schema": 1,
        "scheduled": [
            {"start_s": start, "steps": one} for start, one in zip(starts, steps, strict=True)
        ],
        "makespan_s": makespan,
    }


def test_expanding_and_compacting_as_the_paper_does(tmp_path: Path) -> None:
    """Four nodes; the first application leaves three of them free in seconds 1 and 3 only.

    The second one's last step needs all four, free from 7 on: without a limit its middle step waits
    from 2 on; compacted it starts in second 3 instead. With limit 2 it must start at 7.
    """
    text = "[[[1,4],[1,1],[1,3],[1,1],[1,2],[1,3],[1,2]], [[1,3],[1,1],[2,4]]]"
    asked = [[1, 3], [1, 1], [2, 4]]
    wanted = {
        "noX": (7, asked),
        "2X": (7, asked),
        "2X+c": (7, asked),
        "infX": (1, [[1, 3], [5, 1], [2, 4]]),
        "infX+c": (3, [[1, 3], [3, 1], [2, 4]]),
        "rigid": (7, [[4, 4]]),
    }
    for fit, (start, steps) in wanted.items():
        done = plan(tmp_path, text, "--nodes", "4", "--fit", fit, "--json")
        assert json.loads(done.stdout)["scheduled"][1] == {"start_s": start, "steps": steps}


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 10**6), st.integers(1, 9)).map(list), min_size=1, max_size=6
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(sorted(FIT_RULES)),
)
def test_whole_numbers_come_out_whole(profiles: list[list[list[int]]], fit: str) -> None:
    queue = [EvolutionProfile(tuple((d, n) for d, n in one)) for one in profiles]
    printed = as_json(plan_offline(queue, 9, FIT_RULES[fit]))
    assert "." not in printed
    assert "nfinity" not in printed
    assert json.loads(printed)["schema"] == 1


def test_whole_numbers_written_as_floats_are_whole(tmp_path: Path) -> None:
    done = plan(tmp_path, "[[[10.0, 2.0]]]", "--nodes", "3", "--json")
    assert '"steps": [[10, 2]]' in done.stdout


def test_the_table_is_aligned_and_shows_expansions(tmp_path: Path) -> None:
    text = "[[[1,3]],[[100,1]],[[3,1],[2,1],[5,3]]]"
    done = plan(tmp_path, text, "--nodes", "3", "--fit", "infX")
    assert done.stdout.splitlines() == [
        "application  start_s  end_s  steps (duration_s x nodes)",
        "          1        0      1  1x3",
        "          2        1    101  100x1",
        "          3        1    106  3x1 97x1(+95) 5x3",
        "makespan_s  106",
    ]


def test_help_names_the_command() -> None:
    assert "plan" in CliRunner().invoke(sim, ["--help"]).stdout
    assert "--fit" in CliRunner().invoke(sim, ["plan", "--help"]).stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1:1: not JSON"),
        ("[[[1,2]],\n [[1,2]", ":2:8: not JSON"),
        ("{}", "expected a list of profiles"),
        ("[]", "no application"),
        ("[[]]", "application 1: the profile has no step"),
        ("[[[1,1]],5]", "application 2: expected a list of steps"),
        ("[[[1,1],[1]]]", "application 1: step 2: expected [duration_s, nodes]"),
        ("[[[1,2,3]]]", "application 1: step 1: expected [duration_s, nodes]"),
        ('[[[1,"2"]]]', 'application 1: step 1: "2" is not a number'),
        ("[[[1,true]]]", "application 1: step 1: true is not a number"),
        ("[[[1,1],[-5,1]]]", "application 1: step 2: duration -5 is below 1"),
        ("[[[0,1]]]", "application 1: step 1: duration 0 is below 1"),
        ("[[[1,1]],[[1,-1]]]", "application 2: step 1: node count -1 is below 1"),
        ("[[[1,0]]]", "application 1: step 1: node count 0 is below 1"),
        ("[[[1.5,1]]]", "application 1: step 1: duration 1.5 is not a whole number"),
        ("[[[1,1.5]]]", "application 1: step 1: node count 1.5 is not a whole number"),
        ("[[[NaN,1]]]", "application 1: step 1: duration nan is not a whole number"),
        ("[[[1,Infinity]]]", "application 1: step 1: node count inf is not a whole number"),
        ("[[[1e300,1]]]", "application 1: step 1: duration is above"),
        ("[[[" + "9" * 5000 + ",1]]]", "a number has too many digits"),
        ("[[[1,1],[1,5]]]", "application 1: step 2: 5 nodes; the cluster has 4"),
        ("[" * 200_000, "lists nested too deeply"),
    ],
)
def test_bad_profiles_are_one_line_with_file_and_place(
    tmp_path: Path, text: str, message: str
) -> None:
    done = plan(tmp_path, text, "--nodes", "4", "--fit", "2X", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{tmp_path / 'profiles.json'}" in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes", "4", "--fit", "3X"], "'3X' is not one of 'rigid', 'noX'"),
        (["--nodes", "0"], "'--nodes': 0 is not in the range"),
        (["--nodes", "many"], "'--nodes': 'many'"),
        ([], "Missing option '--nodes'"),
        (["--nodes", "4", "--wat"], "'--wat'"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, options: list[str], message: str) -> None:
    done = plan(tmp_path, "[[[1,1]]]", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_missing_folder_or_binary_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"[[[1,\xff]]]")
    for name, message in (
        ("missing.json", "No such file"),
        (".", "Is a directory"),
        ("binary", "byte 5 is not UTF-8"),
    ):
        path = tmp_path / name
        done = CliRunner().invoke(sim, ["plan", str(path), "--nodes", "4"])
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert str(path) in done.stderr
        assert message in done.stderr


def test_a_horizon_delays_what_only_knowledge_makes_room_for(tmp_path: Path) -> None:
    queue = json.dumps([[[30, 1], [30, 1], [5, 4]], [[60, 3]]])

    def second(*options: str) -> float:
        done = plan(tmp_path, queue, "--nodes", "4", "--fit", "noX", "--json", *options)
        assert done.exit_code == 0
        start_s: float = json.loads(done.stdout)["scheduled"][1]["start_s"]
        return start_s

    assert (second(), second("--horizon", "30"), second("--horizon", "29")) == (0, 0, 65)
    refused = plan(tmp_path, queue, "--nodes", "4", "--horizon", "-1")
    assert (refused.exit_code, refused.stdout) == (2, "")
