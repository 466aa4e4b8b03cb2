"""Running a phase: gather what the hooks want, apply it, execute what was scheduled.

Start with `runner.py`. What hooks see is made in `contexts.py`.
"""
