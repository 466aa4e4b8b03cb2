"""Public modules import a name when it is first used, so that importing them stays cheap."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def defer_imports(
    module_name: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and the `__dir__` of a module whose names live in other modules.

    Args:
        module_name: The `__name__` of the module.
        homes: The module that each public name is imported from.
    """

    def import_name(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            message = f"module {module_name!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[module_name], name, value)
        return value

    def list_names() -> list[str]:
        special = [name for name in vars(sys.modules[module_name]) if name.startswith("__")]
        return sorted({*special, *homes})

    return import_name, list_names
