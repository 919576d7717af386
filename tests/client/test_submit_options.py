"""`dq submit`: arrays, options in scripts, the environment, where it runs; and several ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import environment, errors
from dq_client.base import messages as m
from dq_client.base.errors import UsageError
from dq_client.cli import job_commands
from dq_client.cli import submit as module
from dq_client.cli.arrays import ELEMENTS_MAX, parse_array
from dq_client.cli.main import main


class Server:
    """Takes every submission; kills every job below 100."""

    def __init__(self) -> None:
        self.submitted = list[m.Submit]()
        self.killed = list[int]()
        self.chooses: dict[int, str] = {}  # where the copies of which job are

    def call(self, body: Any, timeout_s: Any = None) -> Any:
        if isinstance(body, m.Submit):
            self.submitted.append(body)
            return m.Submitted(1, [2, 3] if body.array else [])
        if isinstance(body, m.JobQuery):
            return m.Data({"protection": {"how": self.chooses[body.job]}})
        assert isinstance(body, m.Kill)
        if body.job >= 100:
            raise errors.NotFound(f"no job {body.job}")
        if body.job >= 50:
            raise errors.Refused(f"job {body.job} has ended already (done)")
        self.killed.append(body.job)
        return m.Done()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    accepting = Server()

    @contextmanager
    def connected() -> Iterator[Any]:
        yield accepting

    monkeypatch.setattr(module, "server", connected)
    monkeypatch.setattr(job_commands, "server", connected)
    return accepting


def dq(*words: Any) -> Any:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return left.value.code


# --- arrays -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "indices", "at_most"),
    [
        ("0-3", [0, 1, 2, 3], 0),
        ("7", [7], 0),
        ("9,1,3-4,4", [1, 3, 4, 9], 0),
        ("0-20:5%2", [0, 5, 10, 15, 20], 2),
        ("10000000", [10_000_000], 0),
    ],
)
def test_the_indices_of_an_array(text: str, indices: list[int], at_most: int) -> None:
    assert parse_array(text, None) == m.Array(indices, at_most)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "3-1", "a", "1,", "0-9:0", "0-9%", "0-9%0", "%4", "0-9%x", "1-2-3", "0-99999999"],
)
def test_what_is_no_array_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--array .*(give 0-99|at most)"):
        parse_array(text, None)


def test_an_array_is_bounded(tmp_path: Path) -> None:
    assert len(parse_array(f"1-{ELEMENTS_MAX}", None).indices) == ELEMENTS_MAX  # type: ignore[union-attr]
    for text in (f"0-{ELEMENTS_MAX}", f"0-{ELEMENTS_MAX - 1},20000"):
        with pytest.raises(UsageError, match="at most 10000 jobs"):
            parse_array(text, None)
    (tmp_path / "lines").write_text("x" * 4001)
    with pytest.raises(UsageError, match="at most 4000 characters"):
        parse_array(None, tmp_path / "lines")


def test_a_job_for_each_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a b\n\n  \nc\nd")
    assert parse_array(None, path) == m.Array([0, 1, 2], 0, ["a b", "c", "d"])
    assert parse_array("%2", path) == m.Array([0, 1, 2], 2, ["a b", "c", "d"])
    assert parse_array("2,0", path) == m.Array([0, 2], 0, ["a b", "d"])
    with pytest.raises(UsageError, match="has lines 0 to 2, none 3"):
        parse_array("1-3", path)
    with pytest.raises(UsageError, match="No such file"):
        parse_array(None, tmp_path / "other")


def test_an_array_prints_its_id_and_those_of_its_jobs(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq("submit", "--array", "0-1", "--json", "--", "true") == 0
    assert capsys.readouterr().out == '{"schema": 1, "job": {"id": 1}, "jobs": [2, 3]}\n'
    assert dq("submit", "--array", "0-1", "--", "true") == 0
    assert capsys.readouterr().out == "1\n"


# --- options in the script --------------------------------------------------------------------


def script(folder: Path, *lines: str, name: str = "app.py") -> Path:
    path = folder / name
    path.write_text("\n".join(lines))
    return path


def test_a_script_says_what_the_command_line_does_not(server: Server, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "#!/usr/bin/env python",
        '#DQ --sizes 1,2,4 --name "of the script"',
        "# a comment",
        "",
        "#DQ --env A=script --env B=script --retry 2",
        "#DQX --hold",
        "print()",
        "#DQ --hold",
    )
    assert dq("submit", "--name", "mine", "--env", "A=mine", "python", path, "--sizes", "9") == 0
    (body,) = server.submitted
    assert (body.name, body.sizes.listed, body.retry, body.hold) == ("mine", [1, 2, 4], 2, False)
    assert body.env == {"A": "mine", "B": "script"}
    assert body.argv == ["python", str(path), "--sizes", "9"]


@pytest.mark.parametrize("word", ["--sizes=2,3", "--max=3", "--chain=powers"])
def test_sizes_on_the_command_line_replace_all_of_the_scripts(
    server: Server, tmp_path: Path, word: str
) -> None:
    path = script(tmp_path, "#DQ --min 1 --max 8 --chain multiple --multiple 2 -n 4")
    assert dq("submit", word, "--", "python", path) == 0
    sizes, initial = server.submitted[0].sizes, server.submitted[0].initial
    assert (sizes.min, sizes.multiple, initial) == (None, 1, 4)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#DQ --sise 1", "line 1: No such option"),
        ("#DQ --name 'a", "line 1: No closing quotation"),
        ("#DQ -n 2 other.py", "line 1: options only"),
        ("#DQ --help", "line 1: no option for a script"),
        ("#DQ --chdir /", "line 1: --chdir locates the script"),
        ("#DQ -n two", "line 1: Invalid value for '-n'"),
    ],
)
def test_a_mistake_in_a_script_is_named_with_its_line(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    path = script(tmp_path, line)
    assert dq("submit", "python", path) == 2
    assert not server.submitted
    assert f"{path}, {words}" in capsys.readouterr().err


def test_a_script_by_its_name_alone_is_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("app.py", "job.sh", "tool"):
        script(tmp_path, "#DQ -n 2", name=name)
    (tmp_path / "tool").chmod(0o755)
    for name in ("app.py", "job.sh", "tool", "nothing"):
        assert dq("submit", "--", name, "3") == 0
    assert [body.argv for body in server.submitted] == [
        ["python", "app.py", "3"],
        ["sh", "job.sh", "3"],
        ["./tool", "3"],
        ["nothing", "3"],
    ]
    assert [body.initial for body in server.submitted] == [2, 2, 2, None]
    assert [body.name for body in server.submitted] == ["app", "job", "tool", "nothing"]


def test_the_folder_to_run_in(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path, "#DQ --name inside")
    assert dq("submit", "--chdir", tmp_path, "app.py") == 0
    (body,) = server.submitted
    assert (body.cwd, body.argv, body.name) == (str(tmp_path), ["python", "app.py"], "inside")
    assert dq("submit", "--chdir", tmp_path / "no", "true") == 2
    assert "no such folder" in capsys.readouterr().err


# --- the environment --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_sent"),
    [
        *((n, True) for n in ("LD_LIBRARY_PATH", "CONDA_PREFIX", "CUDA_VISIBLE_DEVICES", "SEED")),
        *((n, True) for n in ("OMPI_MCA_btl", "UCX_TLS", "BASH_FUNC_module%%", "SLURMY")),
        *((n, True) for n in ("DQ_REPORT_INTERVAL", "DQ_WAIT_FOR_RANKS", "DQ_POSTPONE_POINTS")),
        *((n, True) for n in ("DQ_CARRY", "DQ_CARRY_BYTES", "DQ_CARRY_MS", "DQ_SETUP_BYTES")),
        *((n, False) for n in ("DQ_JOB_KEY", "PMI_FD", "PMIX_RANK", "PMI2_X", "HYDI_CONTROL_FD")),
        *(
            (n, False)
            for n in ("OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_x", "SLURM_PROCID", "PE_HOSTFILE")
        ),
        *((n, False) for n in ("MPI_LOCALRANKID", "PWD", "OLDPWD", "SHLVL", "_", "SSH_TTY")),
    ],
)
def test_what_travels(name: str, is_sent: bool) -> None:
    assert environment.travels(name) is is_sent
    assert (name in environment.inherited({name: "1"})[0]) is is_sent


def test_secrets_are_known_by_patterns_in_whatever_case() -> None:
    patterns = ("*TOKEN*", "aws_*")
    found = [environment.is_secret(n, patterns) for n in ("MY_TOKEN", "my_token", "AWS_X", "TOKE")]
    assert found == [True, True, True, False]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"A": "x" * 32_001}, "the variable A is too long"),
        ({"N" * 201: ""}, f"the variable {'N' * 60} is too long"),
        ({f"V{k}": "" for k in range(501)}, "has 501 variables"),
        ({f"V{k}": "x" * 30_000 for k in range(9)}, "bytes, a job at most 262144"),
    ],
)
def test_an_environment_that_is_too_large_is_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        environment.inherited(environ)
    assert environment.inherited({**environ, "PATH": "/bin"}, clean=True) == ({"PATH": "/bin"}, "")


def test_what_is_not_utf8_is_left_out_and_said(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "ODD", "\udcff")
    assert dq("submit", "true") == 0
    assert "ODD" not in server.submitted[0].inherited
    assert capsys.readouterr().err == "not sent to the job, because not UTF-8: 'ODD'\n"


def test_a_variable_by_its_name_alone_is_as_it_is_here(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "word")
    assert dq("submit", "--env", "MY_TOKEN", "--env", "B=", "true") == 0
    assert server.submitted[0].env == {"MY_TOKEN": "word", "B": ""}
    assert dq("submit", "--env", "NOT_SET_HERE", "true") == 2
    assert "it is not set here" in capsys.readouterr().err


# --- several jobs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "killed", "code"),
    [
        (["3"], [3], 0),
        (["3", "5-7", "3"], [3, 5, 6, 7], 0),
        (["49-51", "7"], [49, 7], 4),
        (["100", "50", "7"], [7], 5),
        (["100"], [], 5),
    ],
)
def test_several_ids_are_all_tried_and_have_one_exit_code(
    server: Server, words: list[str], killed: list[int], code: int
) -> None:
    assert dq("kill", *words) == code
    assert server.killed == killed


@pytest.mark.parametrize("word", ["7-3", "0-3", "1-999999999", "x", "-"])
def test_what_is_no_range_of_ids_is_refused(server: Server, word: str) -> None:
    assert dq("kill", "1", "--", word) == 2
    assert server.killed == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["jbos"], "Did you mean dq jobs"), (["submit", "--sise", "1", "x"], "--sizes")],
)
def test_what_may_have_been_meant_is_named(
    capsys: pytest.CaptureFixture[str], words: list[str], meant: str
) -> None:
    assert dq(*words) == 2
    err = capsys.readouterr().err
    assert meant in err and len(err.splitlines()) == 1


# --- protection -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sent", "chosen", "noted"),
    [
        (["--protect"], "auto", "partner", True),
        (["--protect", "auto"], "auto", "partner", True),
        (["--protect"], "auto", "disk", False),
        (["--protect", "partner"], "partner", "partner", False),
        (["--protect", "disk"], "disk", "disk", False),
    ],
)
@pytest.mark.parametrize("array", [[], ["--array", "0-1"]])
def test_a_note_when_the_server_has_chosen_partners(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sent: str,
    chosen: str,
    noted: bool,
    array: list[str],
) -> None:
    server.chooses = {2 if array else 1: chosen}
    assert dq("submit", *words, *array, "--", "true") == 0
    said = capsys.readouterr()
    (body,) = server.submitted
    assert body.protect is not None and body.protect.how == sent
    assert said.out == "1\n"
    assert ("protected by partner: each copy is in memory, on two nodes" in said.err) is noted
    assert said.err.count("\n") == noted
