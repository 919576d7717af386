"""Journals that older versions wrote open, and lead to the recorded actions again.

Each was written by that version's own code, in the simulation of the whole, with a snapshot half
way: 0.1.0 had every option of a policy or a feature as a field of the scheduler's configuration.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dq_server.core.features.dependencies import DependencyOptions
from dq_server.core.features.history import HistoryOptions
from dq_server.core.features.profiles import ProfileOptions
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fairness import DfsConfig
from dq_server.core.policies.grids import GridOptions
from dq_server.core.policies.order_priority import PriorityConfig
from dq_server.core.policies.resize_mebf import MebfOptions
from dq_server.live.journal import Journal
from dq_server.live.recovery import replay, restored
from dq_server.sim.journal import read_journal
from dq_server.sim.journal import replay as handle_again

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
