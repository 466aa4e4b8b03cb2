"""Models and providers as data: what people and config files write. Unknown fields are errors."""

import math
import re
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString, SecretReference

from .inference import TokenUsage

NANOS = 1_000_000_000
"""How many units a US dollar has in the ledgers."""
_CUTOFF = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?")
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Modality(StrEnum):
    """What a model reads or writes."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


class Modalities(StrictRecord, frozen=True, kw_only=True):
    """What a model reads and what it writes."""

    input: tuple[Modality, ...] = (Modality.TEXT,)
    output: tuple[Modality, ...] = (Modality.TEXT,)

    def __post_init__(self) -> None:
        for name in ("input", "output"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                message = f"a modality is named twice in {name}"
                raise ValueError(message)


class ModelPrices(StrictRecord, frozen=True, kw_only=True):
    """US dollars per million tokens; an absent price of cached tokens is the price of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            price = getattr(self, name)
            if price is not None and not (math.isfinite(price) and price >= 0):
                message = f"price {name} must be a number that is not negative"
                raise ValueError(message)

    def nanos(self, usage: TokenUsage) -> int:
        """The cost of these tokens in billionths of a dollar; the prompt includes cached ones."""
        read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
        fresh = max(0, (usage.prompt_tokens or 0) - read - written)
        dollars_per_million = (
            fresh * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + (usage.completion_tokens or 0) * self.output
        )
        return round(dollars_per_million * (NANOS // 1_000_000))


class ModelSpec(StrictRecord, frozen=True, kw_only=True):
    """A model that agents may name: which provider, which name there, what it can do."""

    id: str
    provider_id: str
    upstream_model: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    modalities: Modalities = Modalities()
    knowledge_cutoff: str | None = None
    """`YYYY-MM` or `YYYY-MM-DD`."""
    prices: ModelPrices | None = None
    options: dict[str, Any] = {}
    """Vendor-specific fields, put into every request unchanged."""

    def __post_init__(self) -> None:
        for name in ("id", "provider_id", "upstream_model"):
            if not getattr(self, name).strip():
                message = f"model {name} must not be empty"
                raise ValueError(message)
        for name in ("context_window", "max_output_tokens"):
            limit = getattr(self, name)
            if limit is not None and limit <= 0:
                message = f"model '{self.id}': {name} must be positive"
                raise ValueError(message)
        if (self.max_output_tokens or 0) > (self.context_window or math.inf):
            message = f"model '{self.id}': max_output_tokens exceeds context_window"
            raise ValueError(message)
        if self.knowledge_cutoff is not None and not _is_date(self.knowledge_cutoff):
            message = f"model '{self.id}': knowledge_cutoff must be YYYY-MM or YYYY-MM-DD"
            raise ValueError(message)


def _is_date(text: str) -> bool:
    found = _CUTOFF.fullmatch(text)
    if found is None:
        return False
    year, month, day = int(found[1]), int(found[2]), int(found[3] or 1)
    if not 1 <= month <= len(_MONTH_DAYS):
        return False
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = 28 if month == 2 and not is_leap else _MONTH_DAYS[month - 1]
    return 1 <= day <= days


class PoolRole(StrEnum):
    """When a member of a pool is called."""

    MEMBER = "member"
    FAILOVER_ONLY = "failover_only"


class PoolMember(StrictRecord, frozen=True, kw_only=True):
    """A model of a pool."""

    model_id: str
    weight: float = 1.0
    role: PoolRole = PoolRole.MEMBER

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            message = f"pool member '{self.model_id}': weight must be a positive number"
            raise ValueError(message)


class PoolRouting(StrEnum):
    """How a pool chooses the model that a thread begins with."""

    STICKY = "sticky"
    ROUND_ROBIN = "round_robin"


class ModelPool(StrictRecord, frozen=True, kw_only=True):
    """Several models under one id; agents name it like a model."""

    id: str
    members: tuple[PoolMember, ...]
    routing: PoolRouting = PoolRouting.STICKY
    max_switches: int = 4
    """How often one inference may switch to another member."""
    max_call_usd: float | None = None
    """A member whose next call may cost more than this is skipped for a cheaper one."""

    def __post_init__(self) -> None:
        names = [member.model_id for member in self.members]
        if not self.id.strip():
            message = "a pool id must not be empty"
            raise ValueError(message)
        if len(set(names)) != len(names) or self.id in names:
            message = f"pool '{self.id}': a model is named twice, or the pool names itself"
            raise ValueError(message)
        if not any(member.role == PoolRole.MEMBER for member in self.members):
            message = f"pool '{self.id}': it needs a member that is not failover_only"
            raise ValueError(message)
        if self.max_switches < 0 or (self.max_call_usd is not None and self.max_call_usd < 0):
            message = f"pool '{self.id}': limits must not be negative"
            raise ValueError(message)


class ProviderSpec(StrictRecord, frozen=True, kw_only=True):
    """A vendor's endpoint: which wire format, where, with which key."""

    id: str
    adapter: str
    api_key: RedactedString | None = None
    base_url: str | None = None
    timeout_ms: int = 300_000
    adapter_options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if isinstance(self.api_key, str):
            # A plain string would show up in logs and errors.
            msgspec.structs.force_setattr(self, "api_key", RedactedString(self.api_key))
        for name in ("id", "adapter"):
            if not str(getattr(self, name)).strip():
                message = f"provider {name} must not be empty"
                raise ValueError(message)
        timeout_ms: Any = self.timeout_ms
        # Other types are refused with all other type errors, when the spec is checked.
        if isinstance(timeout_ms, int) and timeout_ms <= 0:
            message = f"provider '{self.id}': timeout_ms must be positive"
            raise ValueError(message)

    @property
    def key(self) -> RedactedString | None:
        """The key, unless it is empty."""
        return self.api_key or None

    def read_key(self) -> RedactedString | None:
        """Return the key as it is now: a reference to a secret is resolved at every call.

        Raises:
            SecretUnresolved: The secret that the key refers to cannot be read; names the reference.
        """
        key = self.key
        return RedactedString(key.reveal()) if isinstance(key, SecretReference) else key


class RetryPolicy(StrictRecord, frozen=True, kw_only=True):
    """How often and how long model calls are retried; the agent's config section `retry`."""

    section: ClassVar[str] = "retry"

    max_retries: int = 2
    """Retries of calls that failed before the model produced any output."""
    max_stream_retries: int = 2
    """Retries of calls that broke off in the middle of an answer."""
    backoff_base_ms: int = 500
    overloaded_backoff_base_ms: int = 2_000
    backoff_cap_ms: int = 8_000
    deadline_ms: int = 600_000
    """No call begins later than this after the first one."""
    stream_idle_timeout_ms: int = 60_000
    """How long a stream may be silent; twice as long when the model reasons."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                message = f"retry {name} must not be negative"
                raise ValueError(message)
