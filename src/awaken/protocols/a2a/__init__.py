"""A2A 1.0: agents as peers, over HTTP+JSON and JSON-RPC, which call the same operations.

A task is a run, a context is a thread, a tenant in a path is an agent's id. A message without a
`taskId` begins a task, queued behind one that works in the same context; one that waits there
goes on with it and gives its questions up. `routes` lists the operations, `decode` says how tasks
that wait are answered, `projection` what a stream tells, `delivery` how push notifications reach
their targets.
"""
