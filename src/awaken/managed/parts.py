"""The ports that every use case of the configuration shares, and who asks for a change."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.config.audit import AuditAction, AuditEvent
from awaken.contracts.config.compiler import ConfigCompiler
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.config.store import ConfigStore
from awaken.contracts.errors import IdempotencyConflict

from .change_sets import CodeRecords
from .effective import PublicationReader
from .publish_rules import JudgedGate
from .secrets import SecretBox, SecretResolver


class RequestKey(msgspec.Struct, frozen=True, kw_only=True):
    """The idempotency key of a request, and a hash of what it asks."""

    key: str
    hash: str


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for a change, as the audit shows it."""

    id: str
    """The principal, and behind a slash the person that it says it acts for."""
    principal: str = ""
    """The principal alone, which was authenticated; blank: the whole id."""
    ip: str | None = None
    request_id: str | None = None


class ConfigParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the use cases work with; `bootstrap` makes it once per runtime."""

    store: ConfigStore
    kinds: Mapping[str, ConfigKind]
    compiler: ConfigCompiler
    reader: PublicationReader
    box: SecretBox
    """Encrypts secrets for the store."""
    resolver: SecretResolver
    """Reads secrets where they are used."""
    clock: Clock
    ids: IdSource
    version: str
    """Of awaken in this process."""
    notify_changed: Callable[[], Awaitable[None]]
    """Tells the other processes to read the head."""
    find_judged_gates: Callable[[str], Awaitable[Sequence[JudgedGate]]] | None = None
    """Returns the evals of a manifest whose gates passed; None: the store keeps no evals."""

    @property
    def code(self) -> CodeRecords:
        """The records of the code of this process."""
        return CodeRecords(records=self.compiler.code_records(), hashes=self.compiler.code_hashes())

    async def is_repeated(self, given: RequestKey | None) -> bool:
        """Whether the same request was served under this key before.

        Raises:
            IdempotencyConflict: The key was used for another request.
        """
        if given is None:
            return False
        known = await self.store.find_config_request(given.key)
        if known is not None and known[0] != given.hash:
            raise IdempotencyConflict(commit_id=given.key)
        return known is not None

    async def read_head(self) -> ConfigHead:
        """Return the head; before the first change, the empty one."""
        return await self.store.find_config_head() or ConfigHead()

    def make_event(
        self, author: Author, action: AuditAction, resource: str, **facts: object
    ) -> AuditEvent:
        """Make an audit event of now."""
        return AuditEvent(
            id=self.ids.new_id(),
            at=self.clock.now_ms(),
            actor=author.id,
            action=action,
            resource=resource,
            ip=author.ip,
            request_id=author.request_id,
            **facts,  # type: ignore[arg-type]
        )
