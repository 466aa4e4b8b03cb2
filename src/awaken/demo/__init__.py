"""The agents of `awaken serve` and `awaken run` without an app, and the crash of `awaken demo`.

These are examples; the composition of a runtime is in `bootstrap`.
"""
