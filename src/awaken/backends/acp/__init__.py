"""The Agent Client Protocol as a backend: a coding agent that runs as a program of its own.

Belongs here: everything that starts such a program, talks to it over its stdin and stdout, and
turns what it says into a run's result. One process serves one run, in a process group of its own
that is gone when the run is. The agent works with its own tools: it is lent neither files nor
terminals, and what it wants permission for becomes a ticket.
"""
