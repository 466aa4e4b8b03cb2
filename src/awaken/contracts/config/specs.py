"""Specs of records that only managed configuration has: rules, budgets, tools and skills."""

import math
import re
from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.models.budgets import Budget, BudgetScope, TenantBudget
from awaken.contracts.record import StrictRecord
from awaken.contracts.specs.skills import Skill, SkillArgument, SkillContext
from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior

DESCRIPTION_BYTES_MAX = 4096
"""Of the description that an override gives a tool."""
SKILL_FILES_MAX = 20
SKILL_BYTES_MAX = 256 * 1024
_FILE = re.compile(r"(?:references|assets)(?:/[A-Za-z0-9_][A-Za-z0-9_. +@-]*){1,7}", re.ASCII)
_SCRIPTS = (".bash", ".bat", ".exe", ".js", ".ps1", ".py", ".rb", ".sh")


class PermissionRule(StrictRecord, frozen=True, kw_only=True):
    """What happens to the calls that a tool pattern matches."""

    tool: str
    behavior: ToolBehavior
    scope: PermissionScope = PermissionScope.THREAD
    """The widest scope in which an answer to this rule's question may be remembered."""


class RulesetSpec(StrictRecord, frozen=True, kw_only=True):
    """Permission rules that agents include by id: `sections.permission.include`."""

    id: str
    rules: tuple[PermissionRule, ...] = ()
    default_behavior: ToolBehavior | None = None
    """For agents whose own section has none; of several rulesets the strictest counts."""


class BudgetHolder(StrEnum):
    """The runs that a managed budget holds for."""

    RUNTIME = "runtime"
    """Every run; the limit is that of each run."""
    TENANT = "tenant"
    """The runs of a tenant; the limit is that of all of them together."""


class BudgetSpec(StrictRecord, frozen=True, kw_only=True):
    """A limit of spending that needs no deployment."""

    id: str
    scope: BudgetHolder = BudgetHolder.RUNTIME
    tenant_id: str | None = None
    """The one tenant that it holds for; absent: each tenant."""
    tokens: int | None = None
    cost_usd: float | None = None
    time_ms: int | None = None
    soft: bool = False

    def __post_init__(self) -> None:
        if self.tenant_id is not None and self.scope is not BudgetHolder.TENANT:
            message = "tenant_id needs the scope 'tenant'"
            raise ValueError(message)
        self.budget  # noqa: B018 - checks the limits

    @property
    def budget(self) -> Budget:
        """The budget that runs are checked against."""
        is_shared = self.scope is BudgetHolder.TENANT
        budget = Budget(
            scope=BudgetScope.TENANT if is_shared else BudgetScope.RUN,
            tokens=self.tokens,
            cost_usd=self.cost_usd,
            time_ms=self.time_ms,
            soft=self.soft,
        )
        if self.tenant_id is None:
            return budget
        return TenantBudget(**msgspec.structs.asdict(budget), tenant_id=self.tenant_id)


class LiveScorer(StrictRecord, frozen=True, kw_only=True):
    """A scorer of real runs, as datasets have them."""

    scorer: str
    name: str = ""
    """How its scores are called; blank: the scorer's own name."""
    options: dict[str, Any] = {}
    threshold: float = 0.5


class LiveScoringSpec(StrictRecord, frozen=True, kw_only=True):
    """Which real runs are scored after their end, and by what."""

    id: str
    scorers: tuple[LiveScorer, ...] = ()
    """The scorers: `{scorer, name, options, threshold}` each, as in datasets."""
    sample: float = 0.05
    """The share of runs that is scored, 0 to 1."""
    agents: tuple[str, ...] = ()
    """Only runs of these agents; empty: of all."""
    max_usd_per_day: float | None = None
    """What its judges may spend in a day, by UTC; judges need it."""
    enabled: bool = True
    """Whether runs are scored at all."""

    def __post_init__(self) -> None:
        if not 0 <= self.sample <= 1:
            message = "sample is a share from 0 to 1"
            raise ValueError(message)
        limit = self.max_usd_per_day
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            message = "max_usd_per_day must be a positive number"
            raise ValueError(message)


class ToolOverride(StrictRecord, frozen=True, kw_only=True):
    """A tool of the code; its description and whether it is enabled can be overridden."""

    id: str
    name: str = ""
    description: str | None = None
    category: str | None = None
    parameters_schema: dict[str, Any] | None = None
    source: str = ""
    """What offers it: `runtime`, `agent:<id>` or `plugin:<name>`."""
    enabled: bool = True


class ManagedSkill(StrictRecord, frozen=True, kw_only=True):
    """A skill with its instructions and its text files; it has no scripts."""

    id: str
    description: str
    body: str
    files: dict[str, str] = {}
    """Texts by path: `references/guide.md`, `assets/form.txt`."""
    when_to_use: str | None = None
    arguments: tuple[SkillArgument, ...] = ()
    argument_hint: str | None = None
    allowed_tools: tuple[str, ...] = ()
    user_invocable: bool = True
    model_invocable: bool = True
    model: str | None = None
    context: SkillContext = SkillContext.INLINE
    agent: str | None = None
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.description.strip() or not self.body.strip():
            message = "a skill needs a description and a body"
            raise ValueError(message)
        if len(self.files) > SKILL_FILES_MAX:
            message = f"a skill has at most {SKILL_FILES_MAX} files"
            raise ValueError(message)
        for path in self.files:
            if _FILE.fullmatch(path) is None:
                message = f"file {path[:80]!r} is no plain path below references/ or assets/"
                raise ValueError(message)
            if path.lower().endswith(_SCRIPTS):
                message = f"file {path[:80]!r} is a script; skills with scripts are folders"
                raise ValueError(message)
        texts = (self.body, *self.files.values())
        if sum(len(text.encode(errors="replace")) for text in texts) > SKILL_BYTES_MAX:
            message = f"the body and the files have more than {SKILL_BYTES_MAX} bytes"
            raise ValueError(message)

    def as_skill(self, content_hash: str) -> Skill:
        """The skill as its plugin offers it."""
        return Skill(
            name=self.id,
            description=self.description,
            body=self.body,
            when_to_use=self.when_to_use,
            arguments=self.arguments,
            argument_hint=self.argument_hint,
            allowed_tools=self.allowed_tools,
            user_invocable=self.user_invocable,
            model_invocable=self.model_invocable,
            model=self.model,
            context=self.context,
            agent=self.agent,
            paths=self.paths,
            content_hash=content_hash,
        )
