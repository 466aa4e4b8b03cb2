"""The head: which publication is live, which one is tried beside it, and what is switched off."""

import math
from enum import StrEnum

from awaken.contracts.record import Record, StrictRecord


class CanaryKey(StrEnum):
    """What stays on one side of a canary."""

    THREAD = "thread"
    USER = "user"
    TENANT = "tenant"


class Guardrails(StrictRecord, frozen=True, kw_only=True):
    """Limits that end a canary by themselves, judged over the runs that ended in a window."""

    min_runs: int = 20
    """How many runs of the canary must have ended before it is judged."""
    window_ms: int = 900_000
    max_error_rate: float | None = None
    max_error_rate_ratio: float | None = None
    """The most that the canary's error rate may be of that of the live publication."""
    max_p95_ms: int | None = None
    max_cost_usd_per_run: float | None = None

    def __post_init__(self) -> None:
        if self.min_runs < 1 or self.window_ms < 1_000:
            message = "guardrails need min_runs of at least 1 and window_ms of at least 1000"
            raise ValueError(message)
        for name in (
            "max_error_rate", "max_error_rate_ratio", "max_p95_ms", "max_cost_usd_per_run",
        ):  # fmt: skip
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit >= 0):
                message = f"guardrail {name} must be a number that is not negative"
                raise ValueError(message)
        if self.max_error_rate is not None and self.max_error_rate > 1:
            message = "guardrail max_error_rate is a share, at most 1"
            raise ValueError(message)


class CanaryPlan(StrictRecord, frozen=True, kw_only=True):
    """Which share of new runs tries a publication, and what ends the trial."""

    percent: float
    by: CanaryKey = CanaryKey.THREAD
    guardrails: Guardrails = Guardrails()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.percent) and 0 < self.percent <= 100):
            message = "canary percent must be above 0 and at most 100"
            raise ValueError(message)


class Canary(Record, frozen=True, kw_only=True):
    """A publication that a share of new runs takes."""

    publication: int
    plan: CanaryPlan
    salt: str
    """Makes the choice of threads differ from one canary to the next."""
    since: int


class SeenCanary(StrictRecord, frozen=True, kw_only=True):
    """The canary that a person saw and means; another one is left alone."""

    publication: int
    since: int | None = None
    """When it began, in milliseconds since the epoch; None means any canary of the publication."""

    def names(self, canary: Canary) -> bool:
        """Whether it is this canary."""
        return self.publication == canary.publication and self.since in (None, canary.since)


class SwitchKind(StrEnum):
    """What a switch stops."""

    AGENT = "agent"
    TOOL = "tool"
    MODEL = "model"
    PROVIDER = "provider"
    MCP_SERVER = "mcp-server"
    ALL = "all"


class SwitchState(StrEnum):
    """How a switch stops it: agents are paused, all else is disabled."""

    PAUSED = "paused"
    DISABLED = "disabled"


class Switch(Record, frozen=True, kw_only=True):
    """An operator's stop; it reaches runs that execute. The id of the switch `all` is `*`."""

    kind: SwitchKind
    id: str
    state: SwitchState
    reason: str
    by: str
    at: int


class ConfigHead(Record, frozen=True, kw_only=True):
    """The one movable row of the configuration; every change of it raises `revision`."""

    publication: int | None = None
    """The live publication; None before the first one."""
    revision: int = 0
    canary: Canary | None = None
    switches: tuple[Switch, ...] = ()
    trial: int | None = None
    """An ephemeral publication that every process compiles before it may become live."""
    secrets_at: int = 0
    """The revision at which a stored secret last changed: processes read them again."""
