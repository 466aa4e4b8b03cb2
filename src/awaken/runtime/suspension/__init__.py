"""Runs that do not execute: tickets, decisions, resume, recovery, ends without an executor.

Start with `resume.py`. What a tool call becomes when it suspends is in `runtime/tools`.
"""
