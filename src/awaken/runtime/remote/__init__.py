"""Runs that execute at a remote backend: one turn there, its questions, its abort.

Start with `remote_run.py`.
"""
