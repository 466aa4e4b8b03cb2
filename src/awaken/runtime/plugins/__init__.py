"""What plugins declare, compiled into what a run executes.

Start with `environment.py`. Phases are run in `runtime/phases`.
"""
