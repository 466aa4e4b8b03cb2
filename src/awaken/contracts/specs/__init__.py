"""Declarative specs of agents, skills and remote registries, as plain data."""
