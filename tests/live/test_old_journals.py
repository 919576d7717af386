"""Journals that older versions wrote open, and lead to the recorded actions again.

Each was written by that version's own code, with a snapshot half way. Those of 0.1.0 are lives in
the simulation of the whole: every option of a policy or a feature was a field of the scheduler's
configuration then. Those of 0.2.0 are drawn lives with all features (journals/make_0_2_0.py).
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from dq_server.core.features.dependencies import DependencyOptions
from dq_server.core.features.history import HistoryOptions
from dq_server.core.features.profiles import ProfileOptions
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.requests import DfsConfig
from dq_server.core.policies.grids import GridOptions
from dq_server.core.policies.orders import PriorityConfig
from dq_server.core.policies.resize_mebf import MebfOptions
from dq_server.core.scheduler import Scheduler
from dq_server.core.transaction import Interruption
from dq_server.live.store import snapshot
from dq_server.live.store.journal import Journal
from dq_server.live.store.recovery import recovered, replay, restored
from dq_server.sim.journal import read_journal
from dq_server.sim.journal import replay as handle_again

LIVES = zipfile.ZipFile(Path(__file__).parent / "journals" / "0.2.0-lives.zip")
NAMES = sorted(name.removesuffix(".json") for name in LIVES.namelist() if name.endswith(".json"))
JOURNALS = sorted((Path(__file__).parent / "journals").glob("*.sqlite"))


def config_of(name: str) -> SchedulerConfig:
    path = Path(__file__).parent / "journals" / name
    events = [entry.event for entry in read_journal(path)]
    found = [event.config for event in events if hasattr(event, "config")]
    assert len(found) == 1
    config = found[0]
    assert isinstance(config, SchedulerConfig)
    return config


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_the_server_reads_it(path: Path, tmp_path: Path) -> None:
    journal = Journal(Path(shutil.copy(path, tmp_path / "journal.sqlite")))
    try:
        scheduler, _, after = restored(journal)
        assert after == 0, "the snapshot has the old form: all events are replayed"
        count = 0
        for entry in journal.entries(after):
            replay(scheduler, entry)
            count += 1
        scheduler.state.check()
        assert count > 20
    finally:
        journal.close()


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_the_simulator_reads_it(path: Path) -> None:
    count, difference = handle_again(read_journal(path))
    assert difference is None
    assert count > 20


def test_each_option_means_what_it_meant() -> None:
    assert len(JOURNALS) == 3
    mebf = config_of("0.1.0-mebf.sqlite")
    assert mebf.of(MebfOptions) == MebfOptions(theta=0.4, also="shrink")
    assert mebf.of(ProfileOptions) == ProfileOptions(fit="2X", grace_s=30.0)
    assert mebf.of(HistoryOptions) == HistoryOptions(learn="always", tolerance=0.5)
    assert mebf.of(GridOptions) == GridOptions(tried="spot")
    assert mebf.of(DependencyOptions) == DependencyOptions(failed="hold")
    dfs = config_of("0.1.0-dfs.sqlite")
    assert dfs.of(DfsConfig).user["*"].target_delay_s == 500.0
    assert dfs.of(PriorityConfig).users == {"ada": 2.0}


def read_again(scheduler: Scheduler) -> bytes:
    """A snapshot as it is after it was read: a planned end that was a whole number is a float."""
    read = snapshot.decode(snapshot.encode(scheduler, 0.0))[0]
    for job in read.state.jobs.values():
        job.records.pop(Interruption.key, None)  # 0.2.0 did not keep it: a good end is not believed
    return snapshot.encode(read, 0.0)


# Reasons that a job keeps are told in other words since. These lives are followed as recorded, as
# those are whose sizes are found by another rule now.
OTHER_WORDS = {"life-5", "life-11", "life-25"}


@pytest.mark.parametrize("name", NAMES)
def test_the_server_goes_on_from_a_snapshot_of_0_2_0(name: str, tmp_path: Path) -> None:
    """Whatever its records are called now: the state is the one that all events lead to."""
    LIVES.extract(f"{name}.sqlite-last", tmp_path)
    journal = Journal(Path(LIVES.extract(f"{name}.sqlite", tmp_path)))
    try:
        scheduler, _, after = restored(journal)
        assert after > 0, "the snapshot is read"
        if scheduler.config.searches or name in OTHER_WORDS:
            whole = recovered(journal).scheduler
            whole.state.check()
        else:
            whole = Scheduler()
            for entry in journal.entries(0):
                replay(whole, entry)
                if entry.seq == after:
                    assert read_again(whole) == read_again(scheduler)
                elif entry.seq > after:
                    replay(scheduler, entry)
            assert read_again(whole) == read_again(scheduler)
    finally:
        journal.close()
    jobs = {
        str(job.id): {"state": str(job.state), "processors": sorted(job.holds())}
        for job in whole.state.jobs.values()
    }
    assert jobs == json.loads(LIVES.read(f"{name}.json"))
