"""Routes of publications and of the head: history, rollback, canary, switches, secrets."""

from msgspec import UNSET

from awaken.contracts.config.errors import UnknownPublication, UnknownSecret, UnknownSwitch
from awaken.contracts.config.heads import CanaryPlan, ConfigHead, SeenCanary, SwitchKind
from awaken.contracts.config.publications import Publication
from awaken.contracts.config.store import SealedSecret
from awaken.managed.configuration import ManagedConfig
from awaken.managed.differences import compare_versions, list_differences
from awaken.managed.heads import SwitchOrder
from awaken.managed.history import list_undone
from awaken.transport.asgi import Bytes, Header, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import (
    CanaryBody,
    ForceQuery,
    PromoteBody,
    PublicationPaging,
    ReleaseQuery,
    RollbackBody,
    SecretBody,
    SwitchBody,
)
from .replies import author_of, publication_header, request_key, written_headers
from .views import (
    AppliedHead,
    ComparedRecord,
    FollowerView,
    HeadView,
    MovedHead,
    PublicationDifference,
    PublicationPage,
    RolledBack,
    SecretList,
    SecretView,
    SwitchList,
    publication_view,
    whole_publication,
)


class PublicationRoutes:
    """The operations on publications and on the head of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._heads = managed.heads
        self._store = managed.parts.store

    async def list_publications(self, call: RouteCall) -> Reply:
        """List publications, newest first."""
        page: PublicationPaging = call.query
        found = await self._store.list_publications(
            before=page.before, limit=page.limit, with_ephemeral=page.ephemeral
        )
        has_more = len(found) == page.limit
        shown = PublicationPage(
            items=tuple(map(publication_view, found)),
            next_before=found[-1].no if has_more else UNSET,
        )
        return as_json(shown)

    async def get_publication(self, call: RouteCall) -> Reply:
        """Get a publication with its manifest."""
        return as_json(whole_publication(await self._load(call.path["no"])))

    async def compare_publications(self, call: RouteCall) -> Reply:
        """Compare two publications, record by record."""
        first, _, second = call.path["range"].partition("..")
        before, after = await self._load(first), await self._load(second)
        records = []
        places = {
            (namespace, record_id)
            for it in (before, after)
            for namespace, entries in it.manifest.items()
            for record_id in entries
        }
        for namespace, record_id in sorted(places):
            entries = [it.find_entry(namespace, record_id) for it in (before, after)]
            if entries[0] == entries[1]:
                continue
            hashes = [it.hash for it in entries if it is not None]
            bodies = await self._managed.parts.reader.load_bodies(hashes)
            old, new = (None if it is None else bodies.get(it.hash) for it in entries)
            compared = ComparedRecord(
                ns=namespace,
                id=record_id,
                state=compare_versions(old, old, new),
                fields=list_differences(old, old, new),
            )
            records.append(compared)
        undone = await list_undone(self._store, before.no, after.no)
        shown = PublicationDifference(
            before=before.no,
            after=after.no,
            records=tuple(records),
            undone=tuple(map(publication_view, undone)),
        )
        return as_json(shown)

    async def roll_back(self, call: RouteCall) -> Reply:
        """Publish an earlier publication again."""
        body: RollbackBody = call.body
        published = await self._heads.roll_back(
            body.publication,
            author_of(call),
            body.message,
            expected_head=body.expected_head,
            over_canary=body.over_canary,
            once=request_key(call),
        )
        shown = RolledBack(publication=published.publication.no, is_changed=published.is_changed)
        return as_json(shown, 201, written_headers(published))

    async def start_canary(self, call: RouteCall) -> Reply:
        """Try an earlier publication with a share of new runs."""
        body: CanaryBody = call.body
        plan = CanaryPlan(percent=body.percent, by=body.by, guardrails=body.guardrails)
        head = await self._heads.start_canary(
            body.publication, plan, author_of(call), request_key(call)
        )
        return _reply_head(head)

    async def promote_canary(self, call: RouteCall) -> Reply:
        """Make the publication live that is being tried."""
        body: PromoteBody = call.body
        head = await self._heads.promote_canary(
            body, author_of(call), body.message, request_key(call)
        )
        return _reply_head(head)

    async def end_canary(self, call: RouteCall) -> Reply:
        """Stop trying a publication; runs that began on it go on."""
        seen: SeenCanary = call.query
        head = await self._heads.end_canary(
            seen, author_of(call), "ended by an operator", request_key(call)
        )
        return _reply_head(head)

    async def get_head(self, _call: RouteCall) -> Reply:
        """Get the head: what is live, what is tried, what is switched off, and who follows."""
        head = await self._heads.read_head()
        applied = self._managed.live.applied
        workers = (
            FollowerView(id=it.id, publication=it.publication, problem=it.problem)
            for it in await self._managed.list_followers()
        )
        shown = HeadView(
            publication=head.publication,
            revision=head.revision,
            canary=head.canary,
            switches=head.switches,
            this_process=AppliedHead(
                publication=applied.publication,
                revision=applied.revision,
                applied_at=applied.applied_at,
                unusable=dict(applied.unusable),
                problem=applied.problem,
            ),
            workers=tuple(workers),
        )
        return as_json(shown)

    async def list_switches(self, _call: RouteCall) -> Reply:
        """List what operators have stopped."""
        return as_json(SwitchList(items=(await self._heads.read_head()).switches))

    async def set_switch(self, call: RouteCall) -> Reply:
        """Stop an agent, a tool, a model, a provider, an MCP server, or everything, now."""
        body: SwitchBody = call.body
        kind, target = _kind_of(call), call.path["target"]
        order = SwitchOrder(kind=kind, id=target, state=body.state, reason=body.reason)
        head = await self._heads.set_switch(
            order, author_of(call), request_key(call), set_at=body.set_at
        )
        made = next((it for it in head.switches if (it.kind, it.id) == (kind, target)), None)
        return as_json(made or order, 200, (publication_header(head.publication),))

    async def release_switch(self, call: RouteCall) -> Reply:
        """Let what was stopped go on."""
        query: ReleaseQuery = call.query
        head = await self._heads.release_switch(
            _kind_of(call),
            call.path["target"],
            author_of(call),
            request_key(call),
            set_at=query.set_at,
        )
        return Bytes(204, headers=(publication_header(head.publication),))

    async def list_secrets(self, _call: RouteCall) -> Reply:
        """List the names of stored secrets, never their values."""
        found = await self._heads.list_secrets()
        return as_json(SecretList(items=tuple(map(_secret_view, found))))

    async def get_secret(self, call: RouteCall) -> Reply:
        """Get whether a secret is stored, by whom and since when; never its value."""
        ref = call.path["ref"]
        for secret in await self._heads.list_secrets():
            if secret.ref == ref:
                return as_json(_secret_view(secret))
        raise UnknownSecret(ref=ref)

    async def set_secret(self, call: RouteCall) -> Reply:
        """Store a secret; every process uses it at its next call."""
        body: SecretBody = call.body
        sealed = await self._heads.set_secret(
            call.path["ref"], body.value, author_of(call), request_key(call)
        )
        return as_json(_secret_view(sealed), 200, (self._live_header(),))

    async def unset_secret(self, call: RouteCall) -> Reply:
        """Remove a stored secret."""
        query: ForceQuery = call.query
        await self._heads.unset_secret(
            call.path["ref"], author_of(call), is_forced=query.force, once=request_key(call)
        )
        return Bytes(204, headers=(self._live_header(),))

    def _live_header(self) -> Header:
        return publication_header(self._managed.live.head.publication)

    async def _load(self, given: str) -> Publication:
        if not (given.isascii() and given.isdecimal() and 0 < len(given) < 16):
            raise HttpError(400, "invalid_path", "A publication is named by its number.")
        publication = await self._store.load_publication(int(given))
        if publication is None:
            raise UnknownPublication(no=int(given))
        return publication


def _reply_head(head: ConfigHead) -> Reply:
    shown = MovedHead(publication=head.publication, revision=head.revision)
    return as_json(shown, 200, (publication_header(head.publication),))


def _kind_of(call: RouteCall) -> SwitchKind:
    given, target = call.path["kind"], call.path["target"]
    try:
        return SwitchKind(given)
    except ValueError:
        known = ", ".join(SwitchKind)
        problem = f"there is no such kind; known: {known}"
        raise UnknownSwitch(kind=given, target=target, problem=problem) from None


def _secret_view(secret: SealedSecret) -> SecretView:
    return SecretView(
        ref=secret.ref,
        key_id=secret.key_id,
        updated_at=secret.updated_at,
        updated_by=secret.updated_by,
    )
