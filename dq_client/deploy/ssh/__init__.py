"""Clusters of several machines: agents started by ssh, and what is checked before.

filesystem.py  folders that lie on a network file system
machine.py    what is checked of a machine before it is offered
remote_bootstrap.py   the program that ssh runs on a host
session.py    one host: its ssh connection, and what is asked of it there
bringup.py    all hosts of a cluster, brought up, checked and brought down
kept_alive.py  on a host: starts its agent again if it dies
"""
