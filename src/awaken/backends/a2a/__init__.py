"""Agents at other servers, reached over A2A 1.0.

`backend` has the life of a run there: `errand` sends, finds again and stops, `watching` follows a
task to its end. `client` has the operations, over the two bindings of the protocol; `channel` is
the only file that speaks HTTP. The rest is pure: `config`, `wire`, `outgoing`, `task_view`,
`results`.
"""
