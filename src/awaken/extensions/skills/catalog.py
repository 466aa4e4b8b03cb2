"""The catalog from which models choose skills: the same text as long as nothing changes."""

from collections.abc import Iterable
from html import escape

from awaken.contracts.specs.skills import Skill

USAGE = (
    "<skills_usage>Call the tool `skill` with a name from the list before you do what it "
    "describes; its instructions are added to this conversation. Files that the instructions "
    "name are read with `load_skill_resource`.</skills_usage>"
)
MAX_DESCRIPTION = 1_024
_OPEN, _CLOSE = "<available_skills>", "</available_skills>"


def catalog_text(skills: Iterable[Skill], *, max_entries: int, max_chars: int) -> str:
    """The catalog of these skills within both budgets; empty without skills.

    The first entry that does not fit is cut inside its description and the rest is omitted; a note
    says how many are missing.
    """
    ordered = sorted(skills, key=lambda skill: skill.name)
    if not ordered:
        return ""
    room = max_chars - len(_OPEN) - len(_CLOSE) - len(USAGE) - len(_note(len(ordered))) - 4
    lines: list[str] = []
    for skill in ordered[:max_entries]:
        line = _entry(skill, room - sum(len(it) + 1 for it in lines))
        if line is None:
            break
        lines.append(line)
    left_out = len(ordered) - len(lines)
    note = [_note(left_out)] if left_out else []
    return "\n".join([_OPEN, *lines, *note, _CLOSE, USAGE])


def _entry(skill: Skill, room: int) -> str | None:
    """One skill's line, its description cut to the room left; None if it has no room."""
    before = f"<skill><name>{escape(skill.name)}</name><description>"
    after = "</description></skill>"
    space = room - len(before) - len(after) - 1
    shown = escape(_describe_skill(skill))
    if len(shown) > space:
        if space < _SHORTEST:
            return None
        shown = _cut(_describe_skill(skill), space)
    return before + shown + after


_SHORTEST = 80
"""The minimum length of a cut description."""


def _cut(text: str, space: int) -> str:
    """The longest prefix of the text whose escaped form, with an ellipsis, fits the space."""
    used = 1
    for index, character in enumerate(text):
        used += len(escape(character))
        if used > space:
            return escape(text[:index]) + "…"
    return escape(text)


def _describe_skill(skill: Skill) -> str:
    named = ", ".join(it.name + ("" if it.required else "?") for it in skill.arguments)
    hints = {
        "When": skill.when_to_use,
        "Arguments": skill.argument_hint or named,
        "Files": ", ".join(skill.paths),
    }
    given = (f"{name}: {hint}" for name, hint in hints.items() if hint)
    return " — ".join([skill.description[:MAX_DESCRIPTION], *given])


def _note(left_out: int) -> str:
    return f"<truncated>{left_out} more skills are not listed.</truncated>"
