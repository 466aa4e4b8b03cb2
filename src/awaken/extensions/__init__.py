"""Packaged plugins: one folder each, an island of its own.

Belongs here: what extends runs through `contracts.plugins`. An extension imports `contracts` and
`authoring` only; it has no access that a third party's plugin lacks.
"""
