"""The native HTTP API: threads, runs, messages, decisions, and the event log."""
