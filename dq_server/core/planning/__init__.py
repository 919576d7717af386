"""When waiting jobs start: processors taken over time, promises, and the loop that makes them.

timeline.py       processors taken over time: held until a planned end, or promised; the room that
                  they leave beside any number of promises, or beside one alone (EASY)
backfill.py       the loop: who starts now, and who is promised a start; FCFS, EASY,
                  reservations and conservative backfilling differ in its depth. By how
                  much a grant would delay what is promised
waiting_index.py  the jobs of a long queue that fit into such room
"""

from dq_server.core.planning.timeline import INF, ROUNDING_S, available, free, running

__all__ = ["INF", "ROUNDING_S", "available", "free", "running"]
