"""Scorers, statistics, comparisons and gates: pure functions of outcomes and scores."""
