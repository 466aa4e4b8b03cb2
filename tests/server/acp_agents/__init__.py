"""Coding agents for tests; each file is a program of its own."""
