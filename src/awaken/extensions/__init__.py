"""Packaged plugins: one package each; none imports another.

Belongs here: plugins that extend runs through `contracts.plugins`. An extension imports `contracts`
and `authoring` only; it has no access that a third party's plugin lacks.
"""
