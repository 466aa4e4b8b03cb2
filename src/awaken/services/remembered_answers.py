"""Lists and revokes the decisions that hold for later calls as well."""

from collections.abc import Collection

from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput, UnknownAnswer, UnknownThread
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileAccess, ProfileStore, thread_scope
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.permissions import PermissionScope
from awaken.contracts.suspension.remembered_answers import (
    ANSWERS_MAX,
    FORGOTTEN,
    RUN_ANSWERS,
    SHARED_ANSWERS,
    THREAD_ANSWERS,
    RememberedAnswer,
    project_place,
    user_place,
)
from awaken.contracts.tenancy import add_namespace, namespace_of

_KEYS = {key.name: key for key in (SHARED_ANSWERS, FORGOTTEN)}


class Places(Record, frozen=True, kw_only=True):
    """Where answers are looked for."""

    project: str
    user: str | None
    thread_id: str | None


class RememberedAnswers:
    """The answers of one tenant's project, and of the thread and the person that a caller names.

    Answers of a thread have the scope `thread`, or `run` while its run has not ended. When
    `forget` returns, the revocation is durable: it holds for every later call, also of a run that
    executes now, in any process. A call that was allowed before continues. Without a tenant of its
    own the caller can name any tenant.
    """

    __slots__ = ("_profile", "_store", "_tenant_id")

    def __init__(
        self, store: Store, profile: ProfileStore, clock: Clock, tenant_id: str | None = None
    ) -> None:
        self._store = store
        self._profile = ProfileAccess(profile, _KEYS, clock)
        self._tenant_id = tenant_id

    async def list(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str | None = None,
    ) -> tuple[RememberedAnswer, ...]:
        """The answers that hold now, oldest first.

        Raises:
            UnknownThread: There is no such thread, or it belongs to another tenant.
        """
        found = await self._load_answers(await self._places(thread_id, user_id, tenant_id))
        return tuple(sorted(found, key=lambda it: (it.decided_at, it.id)))

    async def forget(
        self,
        answer_id: str,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str | None = None,
    ) -> RememberedAnswer:
        """Revoke one answer, and return it.

        Raises:
            UnknownAnswer: `list` has no answer of that id for the same names.
            UnknownThread: There is no such thread, or it belongs to another tenant.
        """
        places = await self._places(thread_id, user_id, tenant_id)
        for answer in await self._load_answers(places):
            if answer.id == answer_id:
                await self._forget(places, answer.scope, {answer_id})
                return answer
        raise UnknownAnswer(answer_id=answer_id)

    async def forget_all(
        self,
        scope: PermissionScope | str,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        tenant_id: str | None = None,
    ) -> tuple[RememberedAnswer, ...]:
        """Revoke every answer of one scope, and return them.

        Raises:
            InvalidInput: The scope keeps no answers, or needs a thread or person that is not named.
            UnknownThread: There is no such thread, or it belongs to another tenant.
        """
        places = await self._places(thread_id, user_id, tenant_id)
        wanted = _check_scope(scope, places)
        found = tuple(it for it in await self._load_answers(places) if it.scope is wanted)
        if found:
            await self._forget(places, wanted, {it.id for it in found})
        return found

    async def _places(
        self, thread_id: str | None, user_id: str | None, tenant_id: str | None
    ) -> Places:
        tenant_id = self._tenant_id or tenant_id
        if thread_id is not None:
            thread_id = add_namespace(namespace_of(tenant_id), thread_id)
            thread = await self._store.load_thread(thread_id)
            if thread is None or tenant_id not in (None, thread.tenant_id):
                raise UnknownThread(thread_id=thread_id)
            tenant_id = thread.tenant_id
        return Places(
            project=project_place(tenant_id),
            user=user_place(tenant_id, user_id),
            thread_id=thread_id,
        )

    async def _load_answers(self, places: Places) -> tuple[RememberedAnswer, ...]:
        shared = [it for it in (places.project, places.user) if it is not None]
        found = [
            answer
            for place in shared
            for answer in (await self._profile.read(SHARED_ANSWERS, place)).values()
        ]
        if places.thread_id is not None:
            forgotten = await self._profile.read(FORGOTTEN, thread_scope(places.thread_id))
            own = await self._of_thread(places.thread_id)
            found += [it for it in own if it.id not in forgotten]
        return tuple(found)

    async def _of_thread(self, thread_id: str) -> tuple[RememberedAnswer, ...]:
        """The answers in the state of the thread and its run, including revoked ones."""
        checkout = await self._store.checkout(thread_id)
        if checkout is None:
            return ()
        kept = ((THREAD_ANSWERS, checkout.state), (RUN_ANSWERS, checkout.run_state))
        stored = [(key, state[key.name]) for key, state in kept if key.name in state]
        return tuple(answer for key, it in stored for answer in key.decode(it).values())

    async def _forget(self, places: Places, scope: PermissionScope, ids: Collection[str]) -> None:
        match scope:
            case PermissionScope.RUN | PermissionScope.THREAD:
                assert places.thread_id is not None
                await self._forget_of_thread(places.thread_id, ids)
            case PermissionScope.USER:
                assert places.user is not None
                await self._forget_shared(places.user, ids)
            case _:
                await self._forget_shared(places.project, ids)

    async def _forget_of_thread(self, thread_id: str, ids: Collection[str]) -> None:
        # An answer that the state no longer has never comes back: its revocation can go.
        kept = {it.id for it in await self._of_thread(thread_id)}
        await self._profile.change(
            FORGOTTEN,
            thread_scope(thread_id),
            lambda known: tuple(dict.fromkeys((*(it for it in known if it in kept), *ids))),
        )

    async def _forget_shared(self, place: str, ids: Collection[str]) -> None:
        # The revocation comes first: a run that repeats its last step writes the answer again.
        await self._profile.change(
            FORGOTTEN, place, lambda known: tuple(dict.fromkeys((*known, *ids)))[-ANSWERS_MAX:]
        )
        await self._profile.change(
            SHARED_ANSWERS,
            place,
            lambda answers: {name: it for name, it in answers.items() if it.id not in ids},
        )


def _check_scope(scope: PermissionScope | str, places: Places) -> PermissionScope:
    kept = {
        PermissionScope.RUN: places.thread_id,
        PermissionScope.THREAD: places.thread_id,
        PermissionScope.USER: places.user,
        PermissionScope.PROJECT: places.project,
    }
    for known, place in kept.items():
        if known == scope:
            if place is None:
                named = "person" if known is PermissionScope.USER else "thread"
                problem = f"name the {named} whose answers are meant"
                raise InvalidInput(what=f"scope '{known}'", problem=problem)
            return known
    raise InvalidInput(what=f"scope {scope!r}", problem=f"answers are kept for {', '.join(kept)}")
