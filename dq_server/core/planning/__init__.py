"""When waiting jobs start: processors taken over time, promises, and the loop that makes them.

timeline.py       processors taken over time: held until a planned end, or promised
backfill.py       the loop: who starts now, and who is promised a start; FCFS, EASY,
                  reservations and conservative backfilling differ in its depth
shadow.py         room beside one promise alone, found from the planned ends (EASY)
waiting_index.py  the jobs of a long queue that fit into such room
delays.py         by how much a grant would delay what is promised
"""

from dq_server.core.planning.timeline import INF, ROUNDING_S, free, running

__all__ = ["INF", "ROUNDING_S", "free", "running"]
