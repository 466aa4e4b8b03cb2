"""Agents at other servers, reached over A2A 1.0.

`backend` executes a run there: `delivery` sends the message once, `task_watch` follows the task
to its end, `task_stop` cancels it, and `remote_turns` tracks the turns under way. `client` has the
operations, over the two bindings of the protocol; `channel` is the only module that speaks HTTP.
The rest is pure: `config`, `wire`, `outgoing`, `task_view`, `results`.
"""
