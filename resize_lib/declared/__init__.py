"""What a program declares on its session (resize_lib/declaring.py), one file for each kind.

``base`` what all have in common · ``dense`` matrices, and arrays cut along the first axis ·
``cartesian`` blocks of any dimension, ``ghosts`` around them · ``device`` parts on a GPU ·
``packed`` values, and what functions pack; on it ``csr`` sparse rows, ``items`` particles and
``local_state`` of one process.
"""
