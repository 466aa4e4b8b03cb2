"""Changes of the head that publish no new record: switches, canaries, rollback, secrets."""

from collections.abc import Callable

import msgspec

from awaken.contracts.config.audit import AuditAction, AuditEvent
from awaken.contracts.config.errors import (
    CanaryConflict,
    HeadMoved,
    InvalidConfig,
    NoCanary,
    PublishRefused,
    SecretInUse,
    SwitchConflict,
    UnknownPublication,
    UnknownSecret,
    UnknownSwitch,
)
from awaken.contracts.config.heads import (
    Canary,
    CanaryPlan,
    ConfigHead,
    SeenCanary,
    Switch,
    SwitchKind,
    SwitchState,
)
from awaken.contracts.config.publications import Publication, PublicationKind, PublicationOrigin
from awaken.contracts.config.secret_fields import list_references
from awaken.contracts.config.store import ConfigWrite, SealedSecret

from .change_sets import ChangeSet, EarlierRecord
from .live import LiveConfig
from .parts import Author, ConfigParts, RequestKey
from .publishing import Published, Publisher, PublishRequest

TRIES = 5
"""How often a change of the head is applied to a newer one."""
ALL = "*"
"""The id of the switch that stops everything."""
REASON_CHARS_MAX = 500


class SwitchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to stop, how, and why."""

    kind: SwitchKind
    id: str
    state: SwitchState
    reason: str


class ConfigHeads:
    """The head of the configuration: everything that moves it without a new record."""

    def __init__(self, parts: ConfigParts, live: LiveConfig, publisher: Publisher) -> None:
        self._parts = parts
        self._live = live
        self._publisher = publisher

    async def read_head(self) -> ConfigHead:
        """Return the head as it is in the store."""
        return await self._parts.read_head()

    async def set_switch(
        self,
        switch: SwitchOrder,
        author: Author,
        once: RequestKey | None = None,
        *,
        set_at: int | None = None,
    ) -> ConfigHead:
        """Stop an agent, a tool, a model, a provider, an MCP server, or everything, now.

        `set_at` is when the switch was set that this one replaces, 0 if the caller saw none.

        Raises:
            UnknownSwitch: The state does not fit the kind, or there is no reason.
            SwitchConflict: Another one was set meanwhile, whose reason the caller has not seen.
        """
        kind, target, state, reason = switch.kind, switch.id, switch.state, switch.reason
        pauses = kind in (SwitchKind.AGENT, SwitchKind.ALL)
        if pauses != (state is SwitchState.PAUSED):
            problem = f"it can be {'paused' if pauses else 'disabled'} only"
            raise UnknownSwitch(kind=kind.value, target=target, problem=problem)
        if (kind is SwitchKind.ALL) != (target == ALL):
            problem = f"the switch 'all' has the id '{ALL}', and no other has"
            raise UnknownSwitch(kind=kind.value, target=target, problem=problem)
        if not reason.strip() or len(reason) > REASON_CHARS_MAX:
            problem = f"it needs a reason of at most {REASON_CHARS_MAX} characters"
            raise UnknownSwitch(kind=kind.value, target=target, problem=problem)
        now = self._parts.clock.now_ms()
        made = Switch(kind=kind, id=target, state=state, reason=reason, by=author.id, at=now)
        event = self._parts.make_event(
            author,
            AuditAction.SWITCH,
            f"switches/{kind.value}/{target}",
            details={"state": state.value},
            message=reason,
        )

        def set_it(head: ConfigHead) -> ConfigHead:
            found = next((it for it in head.switches if (it.kind, it.id) == (kind, target)), None)
            if found is not None and set_at not in (None, found.at):
                raise SwitchConflict(kind=kind.value, target=target, by=found.by)
            others = (it for it in head.switches if it is not found)
            return msgspec.structs.replace(head, switches=(*others, made))

        return await self._change(set_it, (event,), once=once)

    async def release_switch(
        self,
        kind: SwitchKind,
        target: str,
        author: Author,
        once: RequestKey | None = None,
        *,
        set_at: int | None = None,
    ) -> ConfigHead:
        """Let it go on; runs that were paused continue.

        `set_at` is when the switch was set that is meant; one that was set again stays.

        Raises:
            UnknownSwitch: It is not switched.
            SwitchConflict: It was set again, for another reason.
        """
        event = self._parts.make_event(
            author,
            AuditAction.SWITCH,
            f"switches/{kind.value}/{target}",
            details={"state": "released"},
        )

        def release(head: ConfigHead) -> ConfigHead:
            found = next((it for it in head.switches if (it.kind, it.id) == (kind, target)), None)
            if found is None:
                raise UnknownSwitch(kind=kind.value, target=target, problem="it is not switched")
            if set_at not in (None, found.at):
                raise SwitchConflict(kind=kind.value, target=target, by=found.by)
            rest = tuple(it for it in head.switches if it is not found)
            return msgspec.structs.replace(head, switches=rest)

        return await self._change(release, (event,), once=once)

    async def start_canary(
        self, no: int, plan: CanaryPlan, author: Author, once: RequestKey | None = None
    ) -> ConfigHead:
        """Try an earlier publication with a share of new runs.

        Raises:
            UnknownPublication: It does not exist, was purged, or no head may point to it.
            InvalidConfig: It does not compile with the code of today.
            PublishRefused: Another one is being tried, or the rules for publishing are not met.
        """
        publication = await self._parts.store.load_publication(no)
        if publication is None or publication.kind is not PublicationKind.LIVE:
            raise UnknownPublication(no=no)
        self._publisher.check_move(author, "", (publication.created_by,))
        config = await self._parts.reader.read_effective(publication.manifest, self._parts.code, no)
        compiled = await self._parts.compiler.compile(config)
        await self._parts.compiler.discard(compiled)
        if problems := (*config.problems, *compiled.problems):
            raise InvalidConfig(problems=problems)
        now, salt = self._parts.clock.now_ms(), self._parts.ids.new_id()

        def start(head: ConfigHead) -> ConfigHead:
            if head.canary is not None:
                reason = f"publication {head.canary.publication} is being tried"
                raise PublishRefused(unmet=(reason,), reasons=reason)
            canary = Canary(publication=no, plan=plan, salt=salt, since=now)
            return msgspec.structs.replace(head, canary=canary)

        details = {"publication": no, **msgspec.to_builtins(plan)}
        event = self._parts.make_event(author, AuditAction.CANARY, "config/canary", details=details)
        return await self._change(start, (event,), once=once)

    async def promote_canary(
        self,
        seen: SeenCanary,
        author: Author,
        message: str = "",
        once: RequestKey | None = None,
    ) -> ConfigHead:
        """Make the publication live that is being tried, if it is the one that the author saw.

        Raises:
            NoCanary: There is none.
            CanaryConflict: There is another one.
            PublishRefused: The rules for publishing are not met.
        """
        tried = (await self._parts.read_head()).canary
        if tried is not None and seen.names(tried):
            publication = await self._parts.reader.load_publication(tried.publication)
            self._publisher.check_move(author, message, (publication.created_by,))

        def promote(head: ConfigHead) -> ConfigHead:
            canary = _require_canary(head, seen)
            return msgspec.structs.replace(head, publication=canary.publication, canary=None)

        event = self._parts.make_event(
            author, AuditAction.PROMOTE, "config/canary", message=message or None
        )
        return await self._change(promote, (event,), once=once)

    async def end_canary(
        self,
        seen: SeenCanary,
        author: Author,
        message: str,
        once: RequestKey | None = None,
    ) -> ConfigHead:
        """Stop trying the publication that the author saw; runs that began on it go on.

        Raises:
            NoCanary: There is none.
            CanaryConflict: There is another one; it is left alone.
        """

        def end(head: ConfigHead) -> ConfigHead:
            _require_canary(head, seen)
            return msgspec.structs.replace(head, canary=None)

        event = self._parts.make_event(
            author, AuditAction.CANARY, "config/canary", message=message, details={"state": "ended"}
        )
        return await self._change(end, (event,), once=once)

    async def roll_back(
        self,
        no: int,
        author: Author,
        message: str = "",
        *,
        expected_head: int,
        over_canary: SeenCanary | None = None,
        once: RequestKey | None = None,
    ) -> Published:
        """Publish the manifest of an earlier publication again; secrets stay as they are.

        `expected_head` is the publication that the author saw live, 0 for the code alone: what it
        undoes is what was published between both, and nothing else. A canary that runs is ended
        only if `over_canary` names it.

        Raises:
            UnknownPublication: It does not exist, or was purged.
            LiveConflict: Another one is live.
            CanaryConflict: Another canary runs than the one that is named.
            ConfigError: It does not compile with the code of today.
        """
        earlier = await self._parts.store.load_publication(no)
        if earlier is None:
            raise UnknownPublication(no=no)
        head = await self._parts.read_head()
        live = await self._parts.reader.load_publication(head.publication)
        return await self._publisher.publish(
            PublishRequest(
                change_set=ChangeSet(changes=_list_reversals(live, earlier)),
                author=author,
                message=message or f"rollback to {no}",
                origin=PublicationOrigin.ROLLBACK,
                action=AuditAction.ROLLBACK,
                restored_from=str(no),
                over_canary=over_canary,
                expected_head=expected_head,
                idempotency_key=None if once is None else once.key,
                request_hash="" if once is None else once.hash,
            )
        )

    async def list_secrets(self) -> tuple[SealedSecret, ...]:
        """Return the stored secrets; their values stay encrypted."""
        return await self._parts.store.list_secrets()

    async def set_secret(
        self, ref: str, text: str, author: Author, once: RequestKey | None = None
    ) -> SealedSecret:
        """Store a secret, over one of the same name; every process uses it at its next call.

        Raises:
            SecretsUnavailable: This process cannot encrypt.
        """
        sealed = self._parts.box.seal(ref, text, author.id)
        event = self._parts.make_event(author, AuditAction.SECRET_SET, f"secrets/{ref}")
        await self.write_secrets((sealed,), (), (event,), once)
        return sealed

    async def unset_secret(
        self,
        ref: str,
        author: Author,
        *,
        is_forced: bool = False,
        once: RequestKey | None = None,
    ) -> None:
        """Remove a stored secret.

        Raises:
            UnknownSecret: There is none.
            SecretInUse: A record of the live publication names it, and it is not forced.
        """
        if await self._parts.is_repeated(once):
            return
        if ref not in {it.ref for it in await self.list_secrets()}:
            raise UnknownSecret(ref=ref)
        users = await self._find_secret_users(ref)
        if users and not is_forced:
            raise SecretInUse(ref=ref, users=", ".join(users))
        event = self._parts.make_event(author, AuditAction.SECRET_UNSET, f"secrets/{ref}")
        await self.write_secrets((), (ref,), (event,), once)

    async def rotate_secrets(self, author: Author) -> tuple[SealedSecret, ...]:
        """Encrypt with the first key what another key encrypts; returns those secrets.

        Raises:
            SecretUnresolved: One cannot be decrypted here; nothing was changed.
            SecretsUnavailable: This process has no key.
        """
        rotated = self._parts.box.rotate(await self.list_secrets(), author.id)
        events = tuple(
            self._parts.make_event(
                author, AuditAction.SECRET_SET, f"secrets/{it.ref}", details={"state": "rotated"}
            )
            for it in rotated
        )
        if rotated:
            await self.write_secrets(rotated, (), events)
        return rotated

    async def write_secrets(
        self,
        secrets: tuple[SealedSecret, ...],
        removed: tuple[str, ...],
        events: tuple[AuditEvent, ...],
        once: RequestKey | None = None,
    ) -> None:
        """Write stored secrets; every process reads them again."""

        def mark(head: ConfigHead) -> ConfigHead:
            return msgspec.structs.replace(head, secrets_at=head.revision + 1)

        await self._change(mark, events, secrets, removed, once)

    async def _find_secret_users(self, ref: str) -> list[str]:
        head = await self._parts.read_head()
        tried = None if head.canary is None else head.canary.publication
        users: dict[str, None] = {}
        for no in (head.publication, tried):
            publication = await self._parts.reader.load_publication(no)
            entries = publication.manifest.values()
            bodies = await self._parts.reader.load_bodies(
                it.hash for its in entries for it in its.values()
            )
            for namespace, its in publication.manifest.items():
                paths = self._parts.kinds[namespace].secrets
                for record_id, entry in its.items():
                    refs = list_references(bodies.get(entry.hash, {}), paths).values()
                    if f"store:{ref}" in refs:
                        users[f"{namespace}/{record_id}"] = None
        return list(users)

    async def _change(
        self,
        change: Callable[[ConfigHead], ConfigHead],
        events: tuple[AuditEvent, ...],
        secrets: tuple[SealedSecret, ...] = (),
        removed: tuple[str, ...] = (),
        once: RequestKey | None = None,
    ) -> ConfigHead:
        """Replace the head by what `change` makes of it; again if it moves meanwhile.

        The same request under the same key again changes nothing.
        """
        if await self._parts.is_repeated(once):
            return await self._parts.read_head()
        for attempt in range(TRIES):
            head = await self._parts.read_head()
            write = ConfigWrite(
                head=change(head),
                expected_revision=head.revision,
                audit=events,
                secrets=secrets,
                removed_secrets=removed,
                idempotency_key=None if once is None else once.key,
                request_hash="" if once is None else once.hash,
            )
            try:
                receipt = await self._parts.store.write_config(write)
            except HeadMoved:
                if attempt + 1 == TRIES:
                    raise
                continue
            assert receipt.head is not None
            await self._live.refresh()
            await self._live.notify_others()
            return receipt.head
        raise AssertionError


def _require_canary(head: ConfigHead, seen: SeenCanary) -> Canary:
    if head.canary is None:
        raise NoCanary
    if not seen.names(head.canary):
        raise CanaryConflict(expected=seen.publication, actual=head.canary.publication)
    return head.canary


def _list_reversals(live: Publication, earlier: Publication) -> dict[str, dict[str, EarlierRecord]]:
    """Return the changes that make the live manifest an earlier one."""
    changes: dict[str, dict[str, EarlierRecord]] = {}
    for namespace in {*live.manifest, *earlier.manifest}:
        ids = {*live.manifest.get(namespace, {}), *earlier.manifest.get(namespace, {})}
        for record_id in ids:
            entry = earlier.find_entry(namespace, record_id)
            changes.setdefault(namespace, {})[record_id] = EarlierRecord(entry=entry)
    return changes
