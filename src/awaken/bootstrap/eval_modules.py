"""The modules whose functions may score."""

import os

MODULES = "AWAKEN_EVAL_MODULES"
"""The variable that names them, separated by commas."""


def read_eval_modules() -> tuple[str, ...]:
    """Return the modules that the environment names."""
    return tuple(it.strip() for it in os.environ.get(MODULES, "").split(",") if it.strip())
