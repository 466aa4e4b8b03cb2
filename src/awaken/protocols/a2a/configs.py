"""Push notification configs: durable, each with the cursor of its last delivery.

A config is an entry of its task. While there may be something to deliver, a second entry points
to it, so that the deliverer need not read every task.
"""

import re

import msgspec

from awaken.contracts.errors import InvalidInput, LimitExceeded
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileEntry, ProfileStore
from awaken.contracts.tenancy import namespace_in
from awaken.outbound.guard import Outbound
from awaken.services.view import TenantView
from awaken.transport.problems import HttpError

from .states import Payload
from .wire import (
    Ask,
    Authentication,
    PushConfig,
    PushConfigName,
    Violation,
    Violations,
    find_violations,
)

PENDING = "a2a.push.pending"
"""The owner of the pointers to configs that may have something to deliver; also one per tenant."""
CONFIGS_MAX = 16
TENANT_CONFIGS_MAX = 1000
"""How many configs of unfinished tasks a tenant may have; callers without a tenant share one."""
_ID = re.compile("[^/]{0,128}")
_TEXT = re.compile("[ -~]{0,4096}")
_TEXT_RULE = "must be at most 4096 printable characters"


class PushPolicy(Record, frozen=True, kw_only=True):
    """Timeouts and retries; all times are milliseconds."""

    timeout_ms: int = 10_000
    """How long one post may take."""
    lease_ms: int = 60_000
    """After how long another process takes over a target whose process does not renew it."""
    attempts: int = 10
    """How often a post is tried before the target is abandoned."""
    retry_base_ms: int = 1_000
    """The pause after the first failure; it doubles with each further one."""
    retry_cap_ms: int = 300_000
    """The longest pause."""


class Target(Record, frozen=True, kw_only=True):
    """Where to post updates of a task, and the progress of that."""

    task_id: str
    config_id: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    cursor: int = 0
    """Everything up to here was delivered."""
    attempts: int = 0
    """How often the next post has failed."""
    due_at: int = 0
    holder: str = ""
    """The only process that delivers, until `held_until`."""
    held_until: int = 0
    is_over: bool = False
    """Nothing more will be delivered; the secrets are deleted."""
    problem: str = ""
    """Why it was abandoned, if it was."""

    def mark_over(self, problem: str = "") -> "Target":
        """Return the target as one that gets no more deliveries, without its secrets."""
        return msgspec.structs.replace(
            self, is_over=True, problem=problem, token="", credentials="", holder="", held_until=0
        )

    def wire(self, task_id: str) -> Payload:
        """The config as clients see it, with the id they know and without secrets."""
        config: Payload = {"taskId": task_id, "id": self.config_id, "url": self.url}
        return config | ({"authentication": {"scheme": self.scheme}} if self.scheme else {})


async def create_config(ask: Ask[PushConfig]) -> Payload:
    """Create a config: post updates of a task from now on to a target."""
    record = await ask.record(ask.params.task_id, await config_violations(ask.params, ask.outbound))
    target = await save_config(ask.view, record.run_id, ask.params, await ask.latest(record))
    return target.wire(record.run_id)


async def get_config(ask: Ask[PushConfigName]) -> Payload:
    """A config without its secrets."""
    record = await ask.record(ask.params.task_id)
    task_id = ask.view.add_namespace(record.run_id)
    target = await find_config(ask.view.profile, task_id, ask.params.id or "")
    if target is None:
        said = f"Task '{record.run_id}' has no push notification config '{ask.params.id}'."
        raise HttpError(404, "PUSH_NOTIFICATION_CONFIG_NOT_FOUND", said)
    return target.wire(record.run_id)


async def list_configs(ask: Ask[PushConfigName]) -> Payload:
    """All configs of a task without their secrets."""
    record = await ask.record(ask.params.task_id)
    found = await ask.view.profile.list_entries(scope(ask.view.add_namespace(record.run_id)))
    configs = [msgspec.convert(it.value, Target).wire(record.run_id) for it in found]
    return {"configs": configs, "nextPageToken": ""}


async def delete_config(ask: Ask[PushConfigName]) -> Payload:
    """Delete a config: post nothing more to its target; idempotent."""
    given = ask.params.id or ""
    record = await ask.record(
        ask.params.task_id, find_violations([("id", bool(given), "is required")])
    )
    await forget_config(ask.view.profile, ask.view.add_namespace(record.run_id), given)
    return {}


async def config_violations(
    config: PushConfig, outbound: Outbound, path: str = ""
) -> list[Violation]:
    """Everything that is wrong with a config."""
    secrets = config.authentication or Authentication(scheme="none")
    texts = {
        "id": config.id or "",
        "token": config.token or "",
        "authentication.scheme": secrets.scheme or "",
        "authentication.credentials": secrets.credentials or "",
    }
    checks = [(name, bool(_TEXT.fullmatch(text)), _TEXT_RULE) for name, text in texts.items()]
    is_id, is_scheme = _ID.fullmatch(config.id or ""), (secrets.scheme or "").strip()
    checks.append(("id", bool(is_id), "may have 128 characters and no slash"))
    checks.append(("authentication.scheme", bool(is_scheme), "must not be blank"))
    try:
        await outbound.check_resolved(config.url or "")
    except InvalidInput as error:
        checks.append(("url", False, str(error)))
    return find_violations(checks, path)


async def save_config(view: TenantView, task_id: str, config: PushConfig, cursor: int) -> Target:
    """Store a checked config for the events of a task after a cursor.

    Raises:
        Violations: The task has too many configs.
        LimitExceeded: The tenant has too many configs.
    """
    task_id = view.add_namespace(task_id)
    known = {it.key for it in await view.profile.list_entries(scope(task_id))}
    secrets = config.authentication or Authentication()
    target = Target(
        task_id=task_id,
        config_id=config.id or view.new_id(),
        url=config.url or "",
        token=config.token or "",
        scheme=secrets.scheme or "",
        credentials=secrets.credentials or "",
        cursor=cursor,
    )
    if len(known) >= CONFIGS_MAX and target.config_id not in known:
        raise Violations(("id", f"a task may have {CONFIGS_MAX} configs"))
    if target.config_id not in known:
        await check_room(view)
    for owner, key, value in (
        (scope(task_id), target.config_id, msgspec.to_builtins(target)),
        *((owner, f"{task_id}/{target.config_id}", None) for owner in pointers(task_id)),
    ):
        entry = ProfileEntry(owner=owner, key=key, value=value, updated_at=view.now_ms())
        await view.profile.save_entry(entry)
    await view.notify_changed(PENDING)
    return target


async def check_room(view: TenantView) -> None:
    """Refuse another config when the tenant has reached its limit.

    Raises:
        LimitExceeded: The limit is reached.
    """
    _, owner = pointers(view.add_namespace(""))
    count = len(await view.profile.list_entries(owner))
    if count >= TENANT_CONFIGS_MAX:
        what = "The number of push notification configs of unfinished tasks"
        raise LimitExceeded(what=what, size=count + 1, limit=TENANT_CONFIGS_MAX)


async def find_config(profile: ProfileStore, task_id: str, config_id: str) -> Target | None:
    """A config of a task, or None."""
    entry = await profile.find_entry(scope(task_id), config_id) if config_id else None
    return None if entry is None else msgspec.convert(entry.value, Target)


async def forget_config(profile: ProfileStore, task_id: str, config_id: str) -> None:
    """Remove a config, and deliver nothing more to it; idempotent."""
    await profile.delete_entry(scope(task_id), config_id)
    await forget_pointers(profile, task_id, config_id)


async def forget_pointers(profile: ProfileStore, task_id: str, config_id: str) -> None:
    """Remove the pointers to a config, so that no deliverer reads it any more."""
    for owner in pointers(task_id):
        await profile.delete_entry(owner, f"{task_id}/{config_id}")


def pointers(task_id: str) -> tuple[str, str]:
    """The owners of the pointers to a task's configs: the global one, and that of its tenant."""
    return PENDING, f"{PENDING}::{namespace_in(task_id)}"


def scope(task_id: str) -> str:
    """The owner of a task's configs, by its stored id."""
    return f"a2a.push::{task_id}"
