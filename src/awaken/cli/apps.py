"""Agents from a Python file that a person names."""

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from awaken.authoring.agents import Agent
from awaken.contracts.errors import InvalidInput


def agents_at(place: str) -> list[Agent]:
    """The agents of `FILE.py`, or those under one name of it: `FILE.py:NAME`.

    Raises:
        InvalidInput: The file does not exist, cannot be imported, or has no agent there.
    """
    path, name = split_place(place)
    return agents_among(vars(imported(path)), path, name)


def agents_in(path: Path) -> list[Agent]:
    """Import a Python file and return the agents it defines, in order.

    Raises:
        InvalidInput: The file does not exist, cannot be imported, or defines no agent.
    """
    return agents_among(vars(imported(path)), path, None)


def agents_among(values: Mapping[str, Any], path: Path, name: str | None) -> list[Agent]:
    """The agents among what a file defines, or those under one name.

    Raises:
        InvalidInput: There is none.
    """
    if name is None:
        agents = [value for value in values.values() if isinstance(value, Agent)]
        problem = f"'{path}' defines no agent; assign an awaken.Agent to a name in it."
    else:
        value = values.get(name)
        found = [value] if isinstance(value, Agent) else value
        agents = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else []
        problem = f"'{name}' in '{path}' is no agent; name an awaken.Agent or a list of them."
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        raise InvalidInput(problem)
    return agents


def imported(path: Path) -> ModuleType:
    """Import a Python file.

    Raises:
        InvalidInput: The file does not exist, or its code fails.
    """
    if not path.is_file():
        message = f"'{path}' is not a file; pass a Python file that defines agents."
        raise InvalidInput(message)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        message = f"'{path}' is no Python file; its name must end with .py."
        raise InvalidInput(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        message = f"'{path}' cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(message) from error
    return module


def split_place(place: str) -> tuple[Path, str | None]:
    """The file of `FILE.py` or `FILE.py:NAME`, and the name."""
    path, colon, name = place.rpartition(":")
    return (Path(path), name) if colon and name.isidentifier() else (Path(place), None)
