"""The agents of `awaken serve` and `awaken run` without an app, and the crash of `awaken demo`.

Examples, not composition: what a runtime is made of stands in `bootstrap`.
"""
