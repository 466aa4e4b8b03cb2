"""Evals as data: recordings, worlds, cases, scores, eval runs; and the port of their store."""
