"""Recipes: how a program that links no library of ours is stopped, checkpointed and started again.

recipe.py    what a recipe may say, and reading one (docs/recipes.md)
command.py   the command line and input files for one start of the program (pure)
shipped/     recipes that come with DQ

resize_lib/recipes runs the program by its recipe.
"""
