"""What every store answers the same way: pure judgements and moves, no storage.

A store loads a `ThreadHead`, lets `check_commit` judge, and writes what `advance` made of it.
"""
