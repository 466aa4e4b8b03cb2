"""Foreign protocols as both sides of them are written: values that a client and a server share.

Belongs here: names, enums and pieces that `protocols` and `backends` would otherwise write twice.
Nothing here reads, writes or decides anything.
"""
