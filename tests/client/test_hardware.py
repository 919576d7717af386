"""What a machine has beside processors, and how people say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dq_client.base import hardware
from dq_client.base.errors import UsageError
from dq_client.base.hardware import cuda_visible, gpu_count, parse_bytes, shared_out, shown_bytes
from dq_client.base.messages import NodeInfo
from dq_client.cli.main import main
from dq_client.deploy.cluster import read_cluster

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "count"),
    [("4G", 4 * GIB), ("4g", 4 * GIB), ("4GiB", 4 * GIB), ("4 GB", 4 * GIB), ("1.5G", 3 * GIB // 2),
     ("512M", GIB // 2), ("1T", 1024 * GIB), ("4096", 4096), ("10B", 10)],
)  # fmt: skip
def test_amounts_of_memory_are_read(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1G", "4X", "G", "1e9", "4Gi b", "99999P", "4G 4G"])
def test_what_is_no_amount_is_not_read(text: str) -> None:
    assert parse_bytes(text) is None


def test_amounts_are_shown() -> None:
    assert [shown_bytes(n) for n in (None, 0, 512, 4 * GIB, 3 * GIB // 2)] == [
        "-", "-", "512", "4G", "1.5G",
    ]  # fmt: skip


def test_gpus_are_those_of_the_device_files_or_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert gpu_count(tmp_path) == 3
    assert gpu_count(tmp_path / "nowhere") == 0
    assert cuda_visible([0, 2]) == "0,2"
    for setting, count in (("2,3", 2), ("", 0), ("-1", 0), ("1,-1,2", 1), ("GPU-ab,GPU-cd", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        assert gpu_count(tmp_path) == count
    assert cuda_visible([1]) == "GPU-cd"


def test_memory_is_found() -> None:
    assert 1 << 26 < hardware.memory_bytes() < 1 << 50


def test_a_limit_of_the_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    free = hardware.memory_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("1048576\n")
    monkeypatch.setattr(hardware, "_limits", lambda root: [root / "memory.max"])
    assert hardware.memory_bytes(tmp_path) == 1 << 20 < free


def test_nodes_of_one_machine_share_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory_bytes", lambda: 9 * GIB)
    monkeypatch.setattr(hardware, "gpu_count", lambda: 4)
    nodes = shared_out([NodeInfo(f"n{k}", 1, "local") for k in range(3)])
    assert [node.memory for node in nodes] == [3 * GIB] * 3
    assert [(node.gpus, node.first_gpu) for node in nodes] == [(2, 0), (1, 2), (1, 3)]
    said = [NodeInfo("a", 1, "a", gpus=2, memory=GIB), NodeInfo("b", 1, "b", gpus=2)]
    nodes = shared_out(said)
    assert [(n.memory, n.gpus, n.first_gpu) for n in nodes] == [(GIB, 2, 0), (9 * GIB // 2, 2, 2)]
    monkeypatch.setattr(hardware, "gpu_count", lambda: 0)
    assert [node.first_gpu for node in shared_out(said)] == [0, 0], "they are pretended"
    assert shared_out([]) == []


def test_a_cluster_file_says_what_nodes_have(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        'engine = "hosts"\n[[nodes]]\nnames = "a"\nmemory = "64G"\ngpus = 0\nfeatures = ["x"]\n'
        '[[nodes]]\nnames = "b"\n'
    )
    first, second = read_cluster(file).hosts
    assert (first.memory, first.gpus, first.features) == (64 * GIB, 0, ["x"])
    assert (second.memory, second.gpus, second.features) == (0, None, [])


@pytest.mark.parametrize(
    ("line", "why"),
    [('memory = "4X"', "memory = '4X', need 64G"), ("memory = 0", "memory = 0, need"),
     ("gpus = -1", "gpus = -1, need 0 to"), ('features = ["a b"]', "'a b' is no feature's name"),
     ('features = ["a&b"]', "is no feature's name"), ("gpus = true", "gpus")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_file(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'engine = "emulated"\n[[nodes]]\nnames = "a"\n{line}\n')
    with pytest.raises(UsageError, match=why):
        read_cluster(file)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("submit", "--memory", "4X", "--", "true"), "--memory 4X: give 4G"),
        (("submit", "--memory", "-4G", "--", "true"), "--memory -4G"),
        (("submit", "--gpus", "-1", "--", "true"), "--gpus"),
        (("agent", "run", "--memory", "lots"), "--memory lots: give 4G"),
        (("agent", "run", "--features", "a,,b"), "'' is no feature's name"),
        (("agent", "run", "--features", "a|b"), "'a|b' is no feature's name"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
