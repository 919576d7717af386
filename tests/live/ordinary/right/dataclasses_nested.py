"""Dataclasses, one of them frozen and replaced, one with a default factory."""

from dataclasses import dataclass, field, replace

import resize_lib


@dataclass(frozen=True)
class Settings:
    rate: float = 0.5
    stage: int = 0


@dataclass
class State:
    settings: Settings = Settings()
    losses: list[float] = field(default_factory=list)
    loss: float = 8.0


def advance(state, share):
    state.loss = state.loss * (1 - 0.1 * state.settings.rate) + share
    state.losses.append(state.loss)
    if len(state.losses) % 10 == 0:
        now = state.settings
        state.settings = replace(now, rate=now.rate / 2, stage=now.stage + 1)


rs = resize_lib.session()
state = State()
for step in rs.iterations(45):
    advance(state, rs.comm.allreduce(len(range(rs.rank, 8, rs.size))) / 80)
if rs.rank == 0:
    other = State()
    for _ in range(45):
        advance(other, 0.1)
    got = sum(state.losses) + 100 * state.settings.stage
    print("sum", got, "expected", sum(other.losses) + 100 * other.settings.stage)
