"""The Agent Client Protocol as a backend: a coding agent that runs as a separate program.

Belongs here: everything that starts such a program, talks to it over its stdin and stdout, and
turns its messages into a run's result. One process serves one run, in its own process group,
which ends with the run. The agent works with its own tools: the client offers it neither files
nor terminals, and a request for permission becomes a ticket.
"""
