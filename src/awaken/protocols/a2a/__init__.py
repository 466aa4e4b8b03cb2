"""A2A 1.0: agents as peers, over HTTP+JSON and JSON-RPC, which call the same operations.

A task is a run, a context is a thread, a tenant in a path is an agent's id. A message without a
`taskId` begins a task, queued behind a running one in the same context; a waiting task there takes
the message and drops its questions. `routes` lists the operations, `decode` reads answers to
waiting tasks, `projection` turns events into task updates, `delivery` sends push notifications.
"""
