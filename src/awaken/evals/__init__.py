"""Evals: recordings, replay, datasets, and evals that are ordinary durable runs in a world."""
