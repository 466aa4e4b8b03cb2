"""The rules that every store applies in the same way: pure checks and moves, no storage.

A store loads a `ThreadHead`, calls `check_commit`, and writes the head that `advance` returns.
"""
