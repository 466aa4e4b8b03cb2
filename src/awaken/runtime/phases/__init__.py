"""Running a phase: gather what the hooks want, apply it, execute what was scheduled.

Belongs here: the phase algorithm. Not here: which phases a step has.
"""
