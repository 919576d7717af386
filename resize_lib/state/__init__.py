"""The program's own variables as state of the job: they travel to ranks that join.

    program.py    which frames, modules and classes are the program's; where its variables are
    digests.py    canonical digests of values: equal values have equal ones in every process
    places.py     where a value is: a variable, an attribute, an item, contents
    survey.py     a walk over all variables: a digest for each place that can change
    objects.py    how objects of each kind are read and filled in place
    iterators.py  iterators, files and readers: where they stand, and how they get there
    views.py      views of arrays, which are views there, too
    packing.py    values as bytes, with references to what the other rank has already
    sending.py    from rank 0 to the ranks that join, which read large arrays from its memory
    verdict.py    what becomes of a variable: carried, kept, or the resize refused (pure)
    alone.py      what one rank alone has given to others: whether it was the job's after all
    carry.py      the order of it in a resize: at loop entry, in old ranks, in joining ranks

docs/carry.md has the rule.
"""
