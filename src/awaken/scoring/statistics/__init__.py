"""Rates, intervals, tests and power, by the standard library alone.

Belongs here: formulas on plain numbers. Does not: evals, cases and verdicts, which
`figures.py` and `comparisons.py` make from them.
"""
