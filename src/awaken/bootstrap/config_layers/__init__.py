"""From the records of a configuration to the managed layer of a registry.

Belongs here: what the code declares as records, and how records of each kind become what agents
name. Does not: HTTP forms (`config_kinds`), and opening or installing anything (`config_compiler`).
"""
