"""The routes of schedules and webhook triggers, and the public address of each trigger.

Belongs here: types of bodies and replies. Does not: rules of due times, signatures, storage.
Start reading at `routes.py`.
"""
