"""A model that needs no key: it adds a docstring to the Python file that it is asked about."""

import re

from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.testing import Answer, ScriptedModel, ToolCalls

DOCSTRING = '"""Says hello."""\n\n'


def scripted_coder() -> ScriptedModel:
    """A model that reads the file, writes it with a docstring, and says so."""
    return ScriptedModel([answer], cycle=True)


def answer(request: InferenceRequest) -> Answer:
    """The next step, by what happened since the last message of the person."""
    asked_at = max(i for i, it in enumerate(request.messages) if it.role is Role.USER)
    asked, *rest = request.messages[asked_at:]
    results = [it.text for it in rest if it.role is Role.TOOL]
    named = re.search(r"[\w./-]+\.py\b", asked.text)
    if named is None:
        return f"These are the files: {results[0]}" if results else list_all()
    if not results:
        return ToolCalls([("mcp__files__read_file", {"path": named[0]})])
    if len(results) == 1:
        change = {"path": named[0], "text": DOCSTRING + results[0]}
        return ToolCalls([("mcp__files__write_file", change)])
    is_written = results[1].startswith("wrote")
    return f"I added a docstring to {named[0]}." if is_written else f"Nothing changed: {results[1]}"


def list_all() -> ToolCalls:
    """Look which files there are."""
    return ToolCalls([("mcp__files__list_files", {})])
