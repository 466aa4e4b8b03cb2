"""Runs and threads as records, and the queries over them."""
