"""The routes of recordings, replays and diffs of stored runs.

Belongs here: types of bodies and queries. Does not: recording, replaying, comparing.
Start reading at `routes.py`.
"""
