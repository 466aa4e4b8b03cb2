"""Takes plugins' declarations and compiles them into what a run executes.

Belongs here: the registrar and the compiled environment. Not here: when hooks run.
"""
