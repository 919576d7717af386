"""`dq verify`: a program's run without resizes beside one with resizes drawn from a seed.

    runs.py        the runs, in a private cluster under a temporary DQ_HOME
    records.py     what the ranks have recorded (resize_lib/recording), iteration by iteration
    comparison.py  the first iteration and variable that differ (pure)
    outputs.py     the same of what the program prints (pure)
    binding.py     the line that binds a variable, from the source
    outcome.py     the result as data and as text

docs/verify.md says what is compared and what is left out.
"""
