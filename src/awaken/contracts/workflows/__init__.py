"""Workflows: what a function of steps sees, and how its steps fail."""
