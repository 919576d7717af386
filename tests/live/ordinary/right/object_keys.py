"""Dictionaries and sets whose keys are objects of the program's, found by identity."""

import resize_lib


class Agent:
    def __init__(self, name):
        self.name = name


def play(agents, scores, active, step):
    agent = agents[step * 5 % len(agents)]
    if agent in active:
        scores[agent] += step
        active.discard(agent)
    else:
        active.add(agent)
    return scores[agent] + len(active)


def world():
    agents = [Agent(f"a{i}") for i in range(7)]
    return agents, dict.fromkeys(agents, 0), set(agents[:3])


rs = resize_lib.session()
agents, scores, active = world()
total = 0
for step in rs.iterations(50):
    value = play(agents, scores, active, step)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = world()
    expected = sum(3 * play(*other, step) for step in range(50))
    print("sum", total + sum(scores.values()), "expected", expected + sum(other[1].values()))
