"""Runs that start without a caller: schedules and webhook triggers.

Belongs here: due times, what to do at one (`plans`), the loop that fires them (`firing`), webhook
signatures, the mapping of a body to a run, and the use cases (`schedules`, `triggers`).
Does not: SQL, routes, tokens. Rights are asked of a port.
Start reading at `firing.py`. Nothing here is loaded before the first schedule or trigger is used.
"""
