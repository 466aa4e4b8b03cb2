"""The control plane: durable input for threads, and the workers that execute it.

Belongs here: sending input, deciding and cancelling (`mailbox`), claiming and executing
(`worker`), keeping leases alive (`heartbeat`), carrying out the outbox commands of commits
(`relay`), and periodic clean-up (`sweeper`).
Does not: agent code, which only the runtime executes; SQL; protocols.
May import: contracts and the runtime. Its store and its bus arrive through ports.
"""
