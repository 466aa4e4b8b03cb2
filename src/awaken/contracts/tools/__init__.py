"""Tools: the port, the context of a call, child runs and tasks, tools of a session."""
