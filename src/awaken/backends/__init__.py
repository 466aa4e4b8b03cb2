"""Where runs execute: one module per execution backend.

Belongs here: implementations of `contracts.backends.ExecutionBackend`.
The local backend drives the runtime's loop; no other package above the runtime does.
"""
