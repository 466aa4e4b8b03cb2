"""The typed state of one run: commands are applied atomically, persistent values are kept.

Belongs here: the store, restoring and exporting. Not here: phases, hooks, durable storage.
"""
