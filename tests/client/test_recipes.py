"""Recipes as they are read, and what they make of a command and its input files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.base.errors import UsageError
from dq_client.base.recipes import recipe as recipes
from dq_client.base.recipes.command import ProgramStart, StartFacts, start_of
from dq_client.base.recipes.recipe import Recipe, RecipeComparison
from dq_client.cli.submit import message_of
from dq_client.verify.recipe_trial import are_equal, figure
from resize_lib.recipes.checkpoints import Checkpoints, stamp_of
from resize_lib.recipes.progress import Counter, Lines, Tail

PLAIN: dict[str, Any] = {
    "name": "mine",
    "progress": {"pattern": "^step ([0-9]+)"},
    "stop": {"signal": "USR1"},
    "checkpoint": {"file": "state"},
}
MELT = """\
units lj
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
dump d all atom 50 dump.melt
run 250  # steps
"""
PW = """\
&CONTROL
  calculation = 'relax', restart_mode = 'from_scratch'
  prefix = "h2"
  outdir = './out/'
/
&SYSTEM
"""


def made(**changes: Any) -> Recipe:
    return recipes.made(PLAIN | changes, "here")


def start(
    recipe: Recipe, *argv: str, cwd: Path, goes_on: bool = False, **more: Any
) -> ProgramStart:
    return start_of(recipe, argv, cwd, StartFacts(7, 3, 4, **more), goes_on=goes_on)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stop": {}}, "exactly one of signal, file and words"),
        ({"stop": {"signal": "USR1", "file": "stop"}}, "exactly one of signal, file and words"),
        ({"stop": {"signal": "NOPE"}}, "no such signal"),
        ({"stop": {"signal": "TERM", "within_s": 0}}, "within_s"),
        ({"stop": {"signal": "TERM", "exit_codes": [2]}}, "launch.command"),
        ({"stop": {"words": ["-t"]}}, "launch.command"),
        ({"stop": {"words": ["-t"]}, "launch": {"command": ["{command}"]}}, "needs done"),
        ({"progress": {"pattern": "step"}}, r"put \(...\) around"),
        ({"progress": {"pattern": "(step"}}, "no regular expression"),
        ({"progress": {"pattern": "step", "counts": True}}, "give go_on.says"),
        ({"speed": 1}, "unknown key 'speed'; known: name, progress"),
        ({"start": {"edit": [{"file": "input", "find": "a", "put": "b"}]}}, "a value that has"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_with_its_place(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=f"here: .*{why}"):
        made(**changes)


def test_all_shipped_ones_make_sense_and_travel() -> None:
    assert recipes.shipped() == ["gromacs", "lammps", "quantum-espresso"]
    for name in recipes.shipped():
        found = recipes.read(name)
        assert found.name == name
        assert recipes.of_text(recipes.text_of(found)) == found
        assert found.compare


def test_an_unknown_name_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="gromacs, lammps, quantum-espresso"):
        recipes.read("namd")


def test_words_of_the_way_are_put_behind_the_command(tmp_path: Path) -> None:
    recipe = made(
        values={"out": {"options": {"-o": "{word}.state"}, "default": "state"}},
        checkpoint={"file": "{out}", "every": ["-e", "{every_min}"]},
        go_on={"words": ["-r", "{checkpoint}", "-j", "{job}.{start}"]},
        launch={"command": ["mpirun", "-n", "{ranks}", "--host", "{hosts}", "{command}"]},
    )
    begun = start(recipe, "prog", "-o", "x", cwd=tmp_path)
    assert begun.words == [*["mpirun", "-n", "4", "--host", "localhost:1", "prog", "-o", "x"]]
    assert begun.checkpoint == tmp_path / "x.state"
    on = start(recipe, "prog", cwd=tmp_path, goes_on=True, every_s=90.0)
    assert on.words[-7:] == [*["prog", "-r", "state", "-j", "7.3", "-e", "1.5"]]


def test_a_name_that_nothing_gives_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has \{nothing\}; known: job"):
        start(made(start={"words": ["{nothing}"]}), "prog", cwd=tmp_path)
    kept = start(made(start={"words": ["${HOME}"]}), "prog", cwd=tmp_path)
    assert kept.words == ["prog", "${HOME}"]


def test_an_input_script_of_lammps_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in.melt").write_text(MELT)
    recipe = recipes.read("lammps")
    begun = start(recipe, "lmp", "-in", "in.melt", cwd=tmp_path)
    assert begun.words == ["lmp", "-in", ".dq-7-in.melt"]
    text = begun.files[tmp_path / ".dq-7-in.melt"]
    assert "create_atoms 1 box" in text
    assert "fix dqstop all halt 10 v_dqstop" in text
    assert "equal is_file(dq-stop-7)" in text
    assert text.rstrip().endswith("run 250 upto\nwrite_restart dq-7.restart")
    on = start(recipe, "lmp", "-in", "in.melt", cwd=tmp_path, goes_on=True, every_steps=100)
    assert on.words[3:] == [*["-log", "log.lammps.3", "-var", "dqevery", "100"]]
    text = on.files[tmp_path / ".dq-7-in.melt"]
    assert "read_restart dq-7.restart" in text
    assert "dump_modify d append yes" in text
    for gone in ("create_", "velocity", "mass"):
        assert gone not in text
    assert (tmp_path / "in.melt").read_text() == MELT, "the user's file stays as it is"


def test_a_script_that_cannot_go_on_is_refused_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "in.two").write_text(MELT + "run 10\n")
    recipe = recipes.read("lammps")
    with pytest.raises(UsageError, match=r"in.two: .* found lines 9, 10: the script must have"):
        start(recipe, "lmp", "-in", "in.two", cwd=tmp_path)
    with pytest.raises(UsageError, match="the command needs -in or -i, for input"):
        start(recipe, "lmp", cwd=tmp_path)


def test_an_input_of_quantum_espresso_goes_on(tmp_path: Path) -> None:
    (tmp_path / "h2.in").write_text(PW)
    recipe = recipes.read("quantum-espresso")
    begun = start(recipe, "pw.x", "-in", "h2.in", cwd=tmp_path)
    assert begun.words[-3:] == ["pw.x", "-in", ".dq-7-h2.in"]
    assert begun.files[tmp_path / ".dq-7-h2.in"] == PW
    assert begun.stop_file == tmp_path / "h2.EXIT"
    assert begun.checkpoint == tmp_path / "out"
    on = start(recipe, "pw.x", "-in", "h2.in", cwd=tmp_path, goes_on=True)
    text = on.files[tmp_path / ".dq-7-h2.in"]
    assert text.count("restart_mode") == 1
    assert "restart_mode = 'restart'" in text
    assert "from_scratch" not in text
    (tmp_path / "md.in").write_text(PW.replace("'relax'", "'md'"))
    with pytest.raises(UsageError, match="md counts its steps anew at each start"):
        start(recipe, "pw.x", "-in", "md.in", cwd=tmp_path)


# --- the options of dq submit --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--checkpoint-every", "5m", "--", "true"], "needs --recipe"),
        (["--recipe", "gromacs", "--protect", "disk", "--", "true"], "by its own checkpoints"),
        (["--recipe", "gromacs", "--checkpoint-every", "100", "--", "true"], "a time, as 10m"),
        (["--recipe", "quantum-espresso", "--", "true"], "the command needs -in"),
        (["--recipe", "none.toml", "--", "true"], "none.toml"),
    ],
)
def test_what_cannot_be_is_refused_at_submission(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=why):
        message_of(words)


def test_a_submission_carries_the_recipe_itself(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nprogress.pattern = "(1)"\nstop.signal = "TERM"\ncheckpoint.file = "s"\n'
        'launch.command = ["{command}"]\n'
    )
    own = ["--recipe", str(file), "--checkpoint-every", "5m", "--restarts", "7"]
    body, _ = message_of([*own, "--", "true"])
    assert recipes.of_text(body.recipe).name == "mine"
    assert body.protect is not None
    assert (body.protect.how, body.protect.every_s, body.protect.restarts) == ("recipe", 300.0, 7)
    assert body.argv == ["true"]


# --- progress, checkpoints, comparisons ----------------------------------------------------------


@given(st.lists(st.text(st.sampled_from("ab1 \r\n"), max_size=9)), st.integers(1, 5))
def test_lines_do_not_depend_on_how_bytes_come(pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    lines, found = Lines(), list[str]()
    for k in range(0, len(data), size):
        found += lines.of(data[k : k + size])
    assert found == Lines().of(data)


def test_progress_is_a_number_that_grows() -> None:
    counter = Counter(r"^step (\S+)", counts=False)
    said = ["step 5", "step x", "other", "step 5", "step 7", "step 6"]
    assert [counter.take(line) for line in said] == [True, False, False, False, True, False]
    assert (counter.first, counter.last) == (5, 6)
    lines = Counter("^iteration", counts=True)
    assert [lines.take(line) for line in ("iteration 1", "x", "iteration 1")] == [True, False, True]
    assert lines.last == 2


def test_the_tail_of_a_file_that_is_cut_or_replaced(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("old\n")
    tail = Tail(file)
    assert tail.read() == b""
    with file.open("a") as f:
        f.write("one\n")
    assert tail.read() == b"one\n"
    file.write_text("ol")  # cut, as a program does that goes on from before
    assert tail.read() == b""
    with file.open("a") as f:
        f.write("d\ntwo\n")
    assert tail.read() == b"d\ntwo\n"
    file.unlink()
    assert tail.read() == b""
    file.write_text("new\n")
    assert tail.read() == b"new\n"


def test_the_last_proven_checkpoint_survives_what_the_program_writes(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_text("first")
    kept = Checkpoints(tmp_path, 1, "1 mine")
    kept.prove(file, 10)
    file.write_text("second, half writ")
    found = Checkpoints(tmp_path, 1, "1 mine")
    assert found.proven.step == 10
    found.restore(file)
    assert file.read_text() == "first"
    file.unlink()
    with pytest.raises(OSError, match="state"):
        found.prove(file, 20)
    assert Checkpoints(tmp_path, 1, "1 mine").proven.step == 10
    assert not Checkpoints(tmp_path, 1, "1 another").proven.place


def test_a_folder_is_a_checkpoint_too(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert stamp_of(folder) is None
    (folder / "deep").mkdir(parents=True)
    assert stamp_of(folder) is None, "an empty one proves nothing"
    (folder / "deep" / "wave").write_text("psi")
    kept = Checkpoints(tmp_path, 1, "1 mine")
    (folder / "own.wfc1").write_text("of one process")
    kept.prove(folder, 3, ["*.wfc*"])
    (folder / "left over").touch()
    kept.restore(folder)
    assert [p.name for p in folder.rglob("*") if p.is_file()] == ["wave"]


def test_comparisons() -> None:
    last = RecipeComparison("energy", r"^E = (\S+)", tolerance=1e-3)
    assert figure(last, "E = 1.0\nE = 2.0\n") == "2.0"
    assert figure(last, "") is None
    assert figure(RecipeComparison("frames", "^frame", counts=True), "frame\nframe\n") == "2"
    assert are_equal("2.0", "2.001", 1e-3)
    assert not are_equal("2.0", "2.1", 1e-3)
    assert not are_equal(None, None, 0.0)
    assert are_equal("abc", "abc", 0.0)
