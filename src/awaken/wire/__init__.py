"""Wire formats of external protocols: values that client and server code share.

Belongs here: names, enums and records that `protocols` and `backends` would otherwise duplicate.
Nothing here does I/O or makes decisions.
"""
