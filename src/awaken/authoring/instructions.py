"""Instructions that are made for each run: by a function, or from a text with placeholders.

A placeholder is exactly `{context.name}` or `{context.name.name}`: it reads keys of the run's
context and nothing else. Other braces, doubled ones included, stay as they are.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from awaken.contracts.errors import InstructionsFailed, InvalidContext
from awaken.contracts.specs.agents import AgentSpec

from .foreign_calls import call_within
from .functions import make_threads
from .pydantic_models import encode_model
from .run_contexts import FIELD_LISTS, RunContext

InstructionsFunction = Callable[[RunContext[Any, Any]], str | Awaitable[str]]
_PATH = r"context((?:\.[A-Za-z_][A-Za-z0-9_]*)+)"
_PLACEHOLDER = re.compile(rf"\{{\{{{_PATH}\}}\}}|\{{{_PATH}\}}")
"""The first form is doubled, and stays as it is."""
_MISSING: Any = object()


class InstructionsMaker(Protocol):
    """Makes the instructions of a run."""

    async def make(self, context: RunContext[Any, Any], seconds: float) -> str:
        """Return the instructions.

        Raises:
            InvalidContext: The context of the run lacks something that they need.
            InstructionsFailed: They are no text.
            CallTookTooLong: The agent's function did not return in time.
            BaseException: What the agent's function raises; see `is_interruption`.
        """
        ...


class MadeInstructions:
    """Instructions that a function of the agent makes, async or not."""

    __slots__ = ("_function", "_threads")

    def __init__(self, function: InstructionsFunction) -> None:
        self._function = function
        self._threads = make_threads()

    async def make(self, context: RunContext[Any, Any], seconds: float) -> str:
        """Call the function: a coroutine function on the loop, a plain one in a worker thread."""
        made = await call_within(seconds, self._function, context, threads=self._threads)
        if not isinstance(made, str):
            problem = f"the function returned {type(made).__name__}; return text"
            raise InstructionsFailed(agent_id=context.agent.id, problem=problem)
        return made


class TemplateInstructions:
    """Instructions with placeholders, which are filled in from the context of the run."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    async def make(self, context: RunContext[Any, Any], seconds: float) -> str:
        """Fill in the placeholders, once: a value that looks like one stays as it is."""

        def fill(found: re.Match[str]) -> str:
            if found[2] is None:
                return found[0]
            return _read_path(context.agent.id, context.context, found[2])

        return _PLACEHOLDER.sub(fill, self._text)


def find_maker(spec: AgentSpec, function: InstructionsFunction | None) -> InstructionsMaker | None:
    """Return what makes the agent's instructions; None if they are the same for every run.

    A text wins over a function: it is what managed configuration has put in its place.
    """
    if not spec.system_prompt:
        return None if function is None else MadeInstructions(function)
    has_placeholders = _PLACEHOLDER.search(spec.system_prompt) is not None
    return TemplateInstructions(spec.system_prompt) if has_placeholders else None


def find_function_problem(function: Callable[..., Any]) -> str | None:
    """Return why a function cannot make instructions, or None."""
    try:
        inspect.signature(function).bind(None)
    except ValueError:
        return None  # A builtin without a signature: the first run shows whether it fits.
    except TypeError:
        return "pass text, or a function of one argument: instructions=lambda ctx: …"
    return None


def find_placeholder_problem(text: str, context_type: type) -> str | None:
    """Return which placeholder names a field that a context of this type never has, or None."""
    lists = [getattr(context_type, it) for it in FIELD_LISTS if hasattr(context_type, it)]
    known = list(dict.fromkeys(name for names in lists for name in names))
    for found in _PLACEHOLDER.finditer(text) if lists else ():
        if found[2] is not None and found[2].split(".")[1] not in known:
            fields = f"{context_type.__name__}; it has: {', '.join(known) or 'none'}"
            return f"'{{context{found[2]}}}' is no field of {fields}"
    return None


def _read_path(agent_id: str, context: Any, path: str) -> str:
    value = context
    for key in path.split(".")[1:]:
        value = _read_field(value, key)
        if value is _MISSING:
            problem = f"the instructions need `context{path}`, and it has no '{key}'"
            raise InvalidContext(agent_id=agent_id, problem=problem)
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, enc_hook=encode_model).decode()


def _read_field(value: Any, key: str) -> Any:
    """Read a key, or a declared field of a type; never another attribute."""
    if isinstance(value, Mapping):
        return value.get(key, _MISSING)
    kind = type(value)
    for names in FIELD_LISTS:
        if key in getattr(kind, names, ()):
            return getattr(value, key)
    return _MISSING
