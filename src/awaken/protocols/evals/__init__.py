"""Evals, scores and labels over HTTP.

Belongs here: routes and the form of their documents. Does not: what evals do (`awaken.evals`).
"""
