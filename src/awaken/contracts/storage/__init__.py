"""The ports of the store: commits, the mailbox, dispatches, the outbox, the bus."""
