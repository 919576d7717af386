"""A cluster brought up and down: on this machine, over ssh, under Slurm; and kept alive."""
