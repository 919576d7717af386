"""Place applications whose needs are known in advance: Klein & Pérez, Euro-Par 2011, RR-7205.

`rules` names the ways to place one, `fit` and `compact` do it, `plan` is the door. The profiles are
in model/profile.py; queues of applications, planned outside a cluster, in dq_server/sim/evolution.
"""
