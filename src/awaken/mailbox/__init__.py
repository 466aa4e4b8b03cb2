"""The control plane: durable input for threads, and the workers that execute it.

Belongs here: the ways to send input, decide and cancel (`mailbox`), claiming and executing
(`worker`), keeping leases alive (`heartbeat`), carrying out what commits ask for outside of their
threads (`relay`), and cleaning up after time has passed (`sweeper`).
Does not: agent code, which only the runtime executes; SQL; protocols.
May import: contracts and the runtime. Its store and its bus arrive through ports.
"""
