"""The kinds `skills`, `tools`, `rulesets`, `budgets` and `scorers`."""

from collections.abc import Iterable

from awaken.contracts.config.specs import (
    DESCRIPTION_BYTES_MAX,
    BudgetSpec,
    LiveScoringSpec,
    ManagedSkill,
    RulesetSpec,
    ToolOverride,
)
from awaken.contracts.errors import AwakenError

from .problems import Problems
from .wire_forms import Body, WireForm


def _read_skill(body: Body, problems: Problems) -> None:
    name = body.pop("name", None)
    if name is not None and name != body.get("id"):
        problems.add("name", "invalid", "The name of a skill is its id.")
    if "instructions_md" in body:
        if "body" in body:
            problems.add("instructions_md", "invalid", "It is the body: write one of them.")
        body["body"] = body.pop("instructions_md")
    if "model_override" in body:
        body["model"] = body.pop("model_override")
    if body.get("context") is None:
        body.pop("context", None)
    for field in ("allowed_tools", "arguments", "paths", "files"):
        if field in body and body[field] is None:
            del body[field]


def _write_skill(body: Body) -> None:
    body["name"] = body["id"]
    body["model_override"] = body.pop("model")
    body["arguments"] = [
        {"name": it["name"], "description": it.get("description", ""),
         "required": it.get("required", False)}
        for it in body["arguments"]
    ]  # fmt: skip


def _check_skill(spec: ManagedSkill, problems: Problems) -> None:
    # Tool patterns run on RE2, which only skills need here.
    from awaken.extensions.skills.static_skills import StaticSkills  # noqa: PLC0415

    try:
        StaticSkills(spec.as_skill(""))
    except AwakenError as error:
        problems.add_refusal("", error)


def _list_skill_references(spec: ManagedSkill) -> Iterable[tuple[str, str, str]]:
    if spec.agent is not None:
        yield "agent", "agents", spec.agent
    if spec.model is not None:
        yield "model_override", "models", spec.model
        yield "model_override", "model-pools", spec.model


def _read_tool(body: Body, problems: Problems) -> None:
    text = body.get("description")
    if isinstance(text, str):
        if not text.strip():
            problems.add("description", "invalid", "A description must not be empty.")
        if len(text.encode(errors="replace")) > DESCRIPTION_BYTES_MAX:
            message = f"A description has at most {DESCRIPTION_BYTES_MAX} bytes."
            problems.add("description", "too_large", message)


def _write_tool(body: Body) -> None:
    body["name"] = body["name"] or body["id"]
    body["description"] = body["description"] or ""


def _check_ruleset(spec: RulesetSpec, problems: Problems) -> None:
    # Tool patterns run on RE2, which only rulesets need here.
    from awaken.patterns import parse_pattern  # noqa: PLC0415

    for at, rule in enumerate(spec.rules):
        try:
            parse_pattern(rule.tool)
        except AwakenError as error:
            problems.add(f"rules/{at}/tool", "bad_pattern", str(error))


def _check_scorers(spec: LiveScoringSpec, problems: Problems) -> None:
    # Scorers are loaded only where some are written.
    from .scorers import list_scorer_problems  # noqa: PLC0415

    if not spec.scorers:
        problems.add("scorers", "invalid", "Name at least one scorer.")
    for at, message in list_scorer_problems(spec):
        problems.add(f"scorers/{at}", "invalid", message)


def _list_scorer_references(spec: LiveScoringSpec) -> Iterable[tuple[str, str, str]]:
    for at, agent_id in enumerate(spec.agents):
        yield f"agents/{at}", "agents", agent_id
    for at, it in enumerate(spec.scorers):
        if isinstance(model_id := it.options.get("model_id"), str):
            yield f"scorers/{at}/options/model_id", "models", model_id
            yield f"scorers/{at}/options/model_id", "model-pools", model_id


SKILLS = WireForm(
    name="skills",
    spec=ManagedSkill,
    read=_read_skill,
    write=_write_skill,
    check=_check_skill,
    references=_list_skill_references,
    names={"model": "model_override"},
    properties={
        "name": {"type": "string"},
        "model": None,
        "model_override": {"type": ["string", "null"]},
        "instructions_md": {"type": "string", "writeOnly": True},
    },
)
TOOLS = WireForm(
    name="tools",
    spec=ToolOverride,
    read=_read_tool,
    write=_write_tool,
    patchable=frozenset({"description", "enabled"}),
    is_patch_only=True,
)
RULESETS = WireForm(name="rulesets", spec=RulesetSpec, check=_check_ruleset)
BUDGETS = WireForm(name="budgets", spec=BudgetSpec)
SCORERS = WireForm(
    name="scorers",
    spec=LiveScoringSpec,
    check=_check_scorers,
    references=_list_scorer_references,
)
