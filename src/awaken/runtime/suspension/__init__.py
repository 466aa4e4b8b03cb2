"""Runs that do not execute: tickets, decisions, resume, recovery, ends without execution.

Start with `resume.py`. `runtime/tools` opens the ticket of a tool call that suspends.
"""
