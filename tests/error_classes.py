"""Every error class of the package."""

import importlib
import pkgutil

import awaken
from awaken.contracts.errors import AwakenError


def load_error_classes() -> list[type[AwakenError]]:
    """Import every module, and return the root and all of its subclasses in a stable order."""
    for module in pkgutil.walk_packages(awaken.__path__, "awaken."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[type[AwakenError], None] = {}
    queue: list[type[AwakenError]] = [AwakenError]
    while queue:
        error = queue.pop()
        queue += error.__subclasses__()
        if error.__module__.startswith("awaken."):
            found[error] = None
    return sorted(found, key=lambda error: (error.__module__, error.__name__))
