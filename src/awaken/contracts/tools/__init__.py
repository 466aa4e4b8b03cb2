"""Tools: the port, what a call sees, what it can set going, tools of a session."""
