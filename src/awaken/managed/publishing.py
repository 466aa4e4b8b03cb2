"""Publishing: the one way by which a change becomes live.

A change set becomes a candidate, the candidate is compiled, and only then is it written: objects,
publication, head, audit and secrets in one transaction. Whatever fails before that has written
nothing; after it every process reads the new head.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from awaken.contracts.config.audit import AuditAction, AuditEvent
from awaken.contracts.config.compiler import AgentChange, CompiledConfig, ConfigProblem
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.errors import (
    CanaryConflict,
    HeadMoved,
    InvalidConfig,
    LiveConflict,
    MissingSecrets,
    PublishRefused,
)
from awaken.contracts.config.heads import Canary, CanaryPlan, ConfigHead, SeenCanary
from awaken.contracts.config.publications import (
    Publication,
    PublicationKind,
    PublicationOrigin,
    RecordChange,
)
from awaken.contracts.config.secret_fields import STORE, list_references
from awaken.contracts.config.store import ConfigWrite, HeadTarget, SealedSecret
from awaken.contracts.errors import IdempotencyConflict

from .change_sets import Authorship, Candidate, ChangeSet, build_candidate
from .followers import ListFollowers, wait_for_trial
from .live import LiveConfig
from .parts import Author, ConfigParts
from .publish_rules import PublishRules, find_unmet_evals, find_unmet_rules
from .references import check_unused

REBASES_MAX = 5
"""How often a change set is applied to a newer head before the author has to."""


class IdempotentRequest(Protocol):
    """A request that may come again: with the same key and hash it is the same one."""

    @property
    def idempotency_key(self) -> str | None:
        """The key that the caller chose; None without one."""
        ...

    @property
    def request_hash(self) -> str:
        """What is asked."""
        ...


class PublishRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A change set, and how it is to become live."""

    change_set: ChangeSet
    author: Author
    message: str = ""
    origin: PublicationOrigin = PublicationOrigin.API
    draft: ConfigDraft | None = None
    """The draft that is published; it is removed in the same write."""
    is_ephemeral: bool = False
    """Whether no head points to the publication: it is for a preview or an eval."""
    canary: CanaryPlan | None = None
    """Tries the publication with a share of new runs instead of making it live."""
    over_canary: SeenCanary | None = None
    """The canary that is ended by this publication; another one refuses the request."""
    is_required_of_all: bool = False
    """Whether every live process must be able to use it before it becomes live."""
    expected_head: int | None = None
    """The publication that must be live; another one refuses the request."""
    secrets: tuple[SealedSecret, ...] = ()
    action: AuditAction | None = None
    """What the audit calls it; None: create, update or delete of each record."""
    restored_from: str | None = None
    idempotency_key: str | None = None
    request_hash: str = ""


class CandidateTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was compiled; `problems` says whether it could be published."""

    candidate: Candidate
    compiled: CompiledConfig
    problems: tuple[ConfigProblem, ...]
    missing_secrets: tuple[str, ...] = ()
    unresolved_secrets: tuple[str, ...] = ()
    """References to the environment and to files that this process cannot resolve: no problem,
    because others may."""
    agents: tuple[AgentChange, ...] = ()
    """The agents that it would change; only of a candidate that was tried."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What publishing left: the live publication, and whether the request changed anything."""

    publication: Publication
    head: ConfigHead
    diagnostics: tuple[ConfigProblem, ...] = ()
    is_changed: bool = True


class Publisher:
    """Publishes change sets against the code of this process.

    Two publications of one process are compiled and installed one after the other, also by two
    publishers: `LiveConfig.publishing` is theirs together.
    """

    def __init__(
        self,
        parts: ConfigParts,
        live: LiveConfig,
        rules: PublishRules,
        list_followers: ListFollowers,
    ) -> None:
        self._parts = parts
        self._live = live
        self._rules = rules
        self._list_followers = list_followers

    async def try_changes(self, request: PublishRequest) -> CandidateTrial:
        """Compile a change set without publishing it, and say what is wrong with it.

        Raises:
            ConfigError: The change set cannot be applied to the live publication.
        """
        async with self._live.publishing:
            head = await self._parts.read_head()
            base = await self._parts.reader.load_publication(head.publication)
            trial = await self._compile(self._build(base, request), request)
            try:
                agents = await self._parts.compiler.list_changes(trial.compiled)
            finally:
                await self._parts.compiler.discard(trial.compiled)
            return msgspec.structs.replace(trial, agents=agents)

    async def publish(self, request: PublishRequest) -> Published:
        """Make a change set live, or change nothing.

        Raises:
            InvalidConfig: The candidate does not compile; lists every problem.
            MissingSecrets: It names secrets that do not exist.
            RecordConflict: A record changed since the author read it.
            RecordInUse: A deleted record is still named by others.
            PublishRefused: The rules for publishing are not met.
            LiveConflict: Another publication is live than the author saw.
            CanaryConflict: Another canary runs than the one that is to be ended.
            HeadMoved: Other changes came in between again and again.
            IdempotencyConflict: The key was used for another request.
            RefusedByWorkers: Another process would lose an agent, and all were asked.
        """
        if (repeated := await self.find_repeated(request)) is not None:
            return repeated
        if request.is_required_of_all and not request.is_ephemeral:
            await self._try_everywhere(request)
        async with self._live.publishing:
            # The same request may have waited for its turn as well.
            if (repeated := await self.find_repeated(request)) is not None:
                return repeated
            for attempt in range(REBASES_MAX + 1):
                head = await self._parts.read_head()
                self._check_head(head, request)
                base = await self._parts.reader.load_publication(head.publication)
                if attempt == 0:
                    request = _with_expected(request, base)
                try:
                    return await self._publish_on(head, base, request)
                except HeadMoved:
                    if attempt == REBASES_MAX:
                        raise
            raise AssertionError

    async def _publish_on(
        self, head: ConfigHead, base: Publication, request: PublishRequest
    ) -> Published:
        candidate = self._build(base, request)
        moves_canary = request.canary is not None or (head.canary and request.over_canary)
        if not candidate.changes and not request.is_ephemeral and not moves_canary:
            return await self._publish_nothing(head, base, request)
        trial = await self._compile(candidate, request)
        is_installed = False
        try:
            if trial.problems:
                raise InvalidConfig(problems=trial.problems)
            if trial.missing_secrets:
                names = ", ".join(trial.missing_secrets)
                raise MissingSecrets(refs=trial.missing_secrets, names=names)
            self._check_rules(head, request)
            await self._check_evals(candidate, request)
            receipt = await self._parts.store.write_config(self._write(head, candidate, request))
            await self._live.take_published(trial.compiled, receipt)
            is_installed = True
        finally:
            if not is_installed:
                await self._parts.compiler.discard(trial.compiled)
        assert receipt.publication is not None
        return Published(
            publication=receipt.publication,
            head=receipt.head or head,
            diagnostics=trial.compiled.diagnostics,
        )

    async def _publish_nothing(
        self, head: ConfigHead, base: Publication, request: PublishRequest
    ) -> Published:
        """Answer a request that changes no record: its secrets and its key are written."""
        if not request.secrets and request.idempotency_key is None:
            return Published(publication=base, head=head, is_changed=False)
        if request.secrets:
            self._check_rules(head, request)
            head = msgspec.structs.replace(head, secrets_at=head.revision + 1)
        receipt = await self._parts.store.write_config(
            ConfigWrite(
                head=head if request.secrets else None,
                expected_revision=head.revision,
                audit=self._audit_secrets(request, self._parts.clock.now_ms()),
                secrets=request.secrets,
                idempotency_key=request.idempotency_key,
                request_hash=request.request_hash,
            )
        )
        if request.secrets:
            await self._live.refresh()
            await self._live.notify_others()
        return Published(publication=base, head=receipt.head or head, is_changed=False)

    async def _try_everywhere(self, request: PublishRequest) -> None:
        """Let every live process compile the candidate before it is published."""
        trial = msgspec.structs.replace(
            request,
            is_ephemeral=True,
            is_required_of_all=False,
            draft=None,
            secrets=(),
            idempotency_key=None,
        )
        no = (await self.publish(trial)).publication.no
        await self._change_trial(lambda _: no)
        try:
            await wait_for_trial(self._list_followers, no, self._parts.clock)
        finally:
            # Another process may have begun a trial of its own meanwhile.
            await self._change_trial(lambda tried: None if tried == no else tried)

    async def _change_trial(self, change: Callable[[int | None], int | None]) -> None:
        """Change which publication every process is to compile, in the head."""
        for attempt in range(REBASES_MAX + 1):
            head = await self._parts.read_head()
            trial = change(head.trial)
            if trial == head.trial:
                return
            changed = msgspec.structs.replace(head, trial=trial)
            write = ConfigWrite(head=changed, expected_revision=head.revision)
            try:
                await self._parts.store.write_config(write)
                break
            except HeadMoved:
                if attempt == REBASES_MAX:
                    raise
        await self._live.refresh()
        await self._live.notify_others()

    def _build(self, base: Publication, request: PublishRequest) -> Candidate:
        authorship = Authorship(by=request.author.id, at=self._parts.clock.now_ms())
        return build_candidate(
            base, request.change_set, self._parts.kinds, self._parts.code, authorship
        )

    async def _compile(self, candidate: Candidate, request: PublishRequest) -> CandidateTrial:
        self._parts.reader.add_objects(candidate.objects)
        config = await self._parts.reader.read_effective(candidate.manifest, self._parts.code)
        check_unused(candidate, config, self._parts.kinds, self._parts.code)
        compiled = await self._parts.compiler.compile(config)
        refs = await self._list_secrets(candidate)
        brought = {it.ref for it in request.secrets}
        stored = {ref for ref in refs if ref.startswith(STORE)}
        missing = (
            ref
            for ref in stored
            if (name := ref.removeprefix(STORE)) not in brought
            and not self._parts.resolver.has_stored(name)
        )
        elsewhere = {ref: path for ref, path in refs.items() if ref not in stored}
        unresolved = await asyncio.to_thread(self._parts.resolver.list_missing, elsewhere)
        warnings = (_warn_unresolved(ref, elsewhere[ref]) for ref in unresolved)
        return CandidateTrial(
            candidate=candidate,
            compiled=msgspec.structs.replace(
                compiled, diagnostics=(*compiled.diagnostics, *warnings)
            ),
            problems=(*config.problems, *compiled.problems),
            missing_secrets=tuple(sorted(missing)),
            unresolved_secrets=unresolved,
        )

    async def _list_secrets(self, candidate: Candidate) -> dict[str, str]:
        """List the references to secrets in what changes, each with a place where it stands."""
        changed = [it for it in candidate.changes if it.after is not None]
        bodies = await self._parts.reader.load_bodies(it.after.hash for it in changed if it.after)
        refs: dict[str, str] = {}
        for change in changed:
            assert change.after is not None
            body = bodies.get(change.after.hash, {})
            found = list_references(body, self._parts.kinds[change.namespace].secrets)
            at = f"{change.namespace}/{change.id}"
            refs |= {ref: f"{at}/{path}" for path, ref in found.items()}
        return dict(sorted(refs.items()))

    def _check_head(self, head: ConfigHead, request: PublishRequest) -> None:
        expected = request.expected_head
        if expected is not None and expected != (head.publication or 0):
            raise LiveConflict(expected=expected, actual=head.publication or 0)
        ended, canary = request.over_canary, head.canary
        if ended is not None and canary is not None and not ended.names(canary):
            raise CanaryConflict(expected=ended.publication, actual=canary.publication)

    def check_move(self, author: Author, message: str, editors: tuple[str, ...]) -> None:
        """Refuse an author who may not move the head now; `editors` wrote what becomes live.

        Raises:
            PublishRefused: The rules for publishing are not met, or this process only reads.
        """
        _refuse_unmet(self._list_unmet(author, message, editors))

    def _list_unmet(self, author: Author, message: str, editors: tuple[str, ...]) -> list[str]:
        unmet = []
        if self._live.pinned is not None:
            unmet.append(f"this process stays on publication {self._live.pinned}, and only reads")
        who, now = author.principal or author.id, self._parts.clock.now_ms()
        return unmet + find_unmet_rules(self._rules, message, who, editors, now)

    def _check_rules(self, head: ConfigHead, request: PublishRequest) -> None:
        if request.is_ephemeral:
            return
        editors = request.draft.editors if request.draft is not None else ()
        unmet = self._list_unmet(request.author, request.message, editors)
        if head.canary is not None and request.over_canary is None:
            unmet.append(
                f"publication {head.canary.publication} is being tried: promote it, end it, "
                "or publish over it"
            )
        _refuse_unmet(unmet)

    async def _check_evals(self, candidate: Candidate, request: PublishRequest) -> None:
        """Refuse a candidate without the evals that the rules require of exactly this manifest."""
        if request.is_ephemeral or not self._rules.requires_eval:
            return
        find = self._parts.find_judged_gates
        judged = () if find is None else await find(candidate.manifest_hash)
        _refuse_unmet(find_unmet_evals(self._rules, judged, self._parts.clock.now_ms()))

    def _write(
        self, head: ConfigHead, candidate: Candidate, request: PublishRequest
    ) -> ConfigWrite:
        now, kind = self._parts.clock.now_ms(), PublicationKind.LIVE
        target, next_head = HeadTarget.LIVE, msgspec.structs.replace(head, canary=None)
        if request.is_ephemeral:
            kind, target, next_head = PublicationKind.EPHEMERAL, HeadTarget.NONE, head
        elif request.canary is not None:
            target = HeadTarget.CANARY
            salt = self._parts.ids.new_id()
            canary = Canary(publication=0, plan=request.canary, salt=salt, since=now)
            next_head = msgspec.structs.replace(head, canary=canary)
        if request.secrets:
            next_head = msgspec.structs.replace(next_head, secrets_at=head.revision + 1)
        publication = Publication(
            parent=head.publication,
            kind=kind,
            manifest=candidate.manifest,
            manifest_hash=candidate.manifest_hash,
            changes=candidate.changes,
            message=request.message,
            created_by=request.author.id,
            created_at=now,
            origin=request.origin,
            draft_id=None if request.draft is None else request.draft.id,
            code=dict(self._parts.code.hashes),
        )
        return ConfigWrite(
            objects=candidate.objects,
            publication=publication,
            target=target,
            head=None if request.is_ephemeral and not request.secrets else next_head,
            expected_revision=head.revision,
            audit=() if request.is_ephemeral else self._audit(candidate, request, now),
            secrets=request.secrets,
            removed_draft=None
            if request.draft is None or request.is_ephemeral
            else request.draft.id,
            # What was edited after it was read is not removed unseen.
            draft_revision=None if request.draft is None else request.draft.revision,
            idempotency_key=request.idempotency_key,
            request_hash=request.request_hash,
        )

    def _audit(
        self, candidate: Candidate, request: PublishRequest, now: int
    ) -> tuple[AuditEvent, ...]:
        def event(change: RecordChange) -> AuditEvent:
            author = request.author
            return AuditEvent(
                id=self._parts.ids.new_id(),
                at=now,
                actor=author.id,
                action=request.action or _action_of(change),
                resource=f"{change.namespace}/{change.id}",
                before=None if change.before is None else change.before.hash,
                after=None if change.after is None else change.after.hash,
                ip=author.ip,
                request_id=author.request_id,
                restored_from=request.restored_from,
                message=request.message or None,
            )

        events = [event(change) for change in candidate.changes]
        events += self._audit_secrets(request, now)
        if request.canary is not None:
            events.append(
                AuditEvent(
                    id=self._parts.ids.new_id(),
                    at=now,
                    actor=request.author.id,
                    action=AuditAction.CANARY,
                    resource="config/canary",
                    details=msgspec.to_builtins(request.canary),
                )
            )
        return tuple(events)

    def _audit_secrets(self, request: PublishRequest, now: int) -> tuple[AuditEvent, ...]:
        return tuple(
            AuditEvent(
                id=self._parts.ids.new_id(),
                at=now,
                actor=request.author.id,
                action=AuditAction.SECRET_SET,
                resource=f"secrets/{secret.ref}",
                ip=request.author.ip,
                request_id=request.author.request_id,
            )
            for secret in request.secrets
        )

    async def find_repeated(self, request: IdempotentRequest) -> Published | None:
        """Return the result of an earlier request under the same key; None without one.

        Raises:
            IdempotencyConflict: The key was used for another request.
        """
        key = request.idempotency_key
        known = None if key is None else await self._parts.store.find_config_request(key)
        if known is None:
            return None
        if known[0] != request.request_hash:
            raise IdempotencyConflict(commit_id=key or "")
        if known[1] is None:
            # It changed nothing then, and changes nothing now.
            head = await self._parts.read_head()
            base = await self._parts.reader.load_publication(head.publication)
            return Published(publication=base, head=head, is_changed=False)
        publication = await self._parts.reader.load_publication(known[1])
        return Published(publication=publication, head=await self._parts.read_head())


def _warn_unresolved(ref: str, path: str) -> ConfigProblem:
    message = f"The secret '{ref}' cannot be resolved in this process."
    return ConfigProblem(path=path, code="unresolved_secret", message=message)


def _refuse_unmet(unmet: list[str]) -> None:
    if unmet:
        raise PublishRefused(unmet=tuple(unmet), reasons="; ".join(unmet))


def _action_of(change: RecordChange) -> AuditAction:
    if change.before is None:
        return AuditAction.CREATE
    return AuditAction.DELETE if change.after is None else AuditAction.UPDATE


def _with_expected(request: PublishRequest, base: Publication) -> PublishRequest:
    """Bind the request to the revisions of its records now, so that a rebase is no overwrite."""
    changes, expected = request.change_set.changes, dict[Any, int]()
    for namespace, wanted in changes.items():
        for record_id in wanted:
            entry = base.find_entry(namespace, record_id)
            expected[(namespace, record_id)] = 0 if entry is None else entry.revision
    expected |= request.change_set.expected
    change_set = msgspec.structs.replace(request.change_set, expected=expected)
    return msgspec.structs.replace(request, change_set=change_set)
