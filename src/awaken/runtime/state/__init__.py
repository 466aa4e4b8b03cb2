"""The typed state of one run: applying commands whole, and keeping what must survive.

Belongs here: the store, restoring and exporting. Not here: phases, hooks, durable storage.
"""
