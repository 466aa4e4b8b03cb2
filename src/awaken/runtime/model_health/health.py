"""The health of models: a circuit breaker for each, shared by all processes of a store.

A breaker opens after several failures in a row. After its cooldown, one call at a time may probe
whether the model works again. Each process saves its changes beside its runs, and the others read
them within seconds. If a change is lost, a process calls a failing model once more than necessary.
"""

import asyncio
import logging
import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.models.errors import ModelError
from awaken.contracts.state.profile import ProfileEntry, ProfileStore

from .breaker import Breaker, BreakerPolicy, BreakerState

logger = logging.getLogger(__name__)

OWNER = "system::model_health"
"""The owner of the profile entries that hold the shared breakers; each is keyed by its model."""
REFRESH_MS = 5_000
"""The least time between two reads of what other processes have saved."""
_STORE_S = 2.0


_CLOSED = Breaker()


class ModelHealth:
    """The breakers of one runtime, by model id. Use it from one event loop.

    With `shared` entries, changes are saved there, and changes of other processes apply here.
    """

    def __init__(
        self, clock: Clock, shared: ProfileStore | None = None, policy: BreakerPolicy | None = None
    ) -> None:
        self._clock = clock
        self._shared = shared
        self._policy = policy or BreakerPolicy()
        self.breakers: dict[str, Breaker] = {}
        """The breakers of models with known failures; all others are closed."""
        self._unsaved: dict[str, Breaker] = {}
        self._saving: asyncio.Task[None] | None = None
        self.next_look_ms: float = math.inf if shared is None else 0
        """The monotonic time from which a call first reads what other processes have saved."""
        self.is_shared = shared is not None
        """Whether other processes may have saved something."""
        self._turns = 0

    def breaker(self, model_id: str) -> Breaker:
        """A model's breaker; without any known failure it is closed."""
        return self.breakers.get(model_id, _CLOSED)

    def retry_at(self, model_id: str) -> int:
        """The wall time at which a refused model may be called again."""
        return self.breaker(model_id).retry_at(self._policy)

    def retry_in_ms(self, model_id: str) -> int:
        """How long a refused model stays refused."""
        return max(0, self.retry_at(model_id) - self._clock.now_ms())

    def next_turn(self) -> int:
        """Count an inference, for pools that take turns."""
        self._turns += 1
        return self._turns

    def is_available(self, model_id: str) -> bool:
        """Whether a call may begin. This check reserves nothing."""
        known = self.breakers.get(model_id)
        return known is None or known.is_available(self._clock.now_ms(), self._policy)

    def try_begin(self, model_id: str) -> bool:
        """Begin a call if one may begin; the caller reports its end by a `record_` method."""
        known = self.breakers.get(model_id)
        if known is None:
            # The usual case: the model has no known failures.
            return True
        now = self._clock.now_ms()
        if not known.is_available(now, self._policy):
            return False
        self._set(model_id, known.after_start(now, self._policy))
        return True

    def record_success(self, model_id: str) -> None:
        """Record that a call completed its answer."""
        known = self.breakers.get(model_id)
        if known is not None:
            self._set(model_id, known.after_success(self._clock.now_ms()))

    def record_failure(self, model_id: str, error: ModelError) -> None:
        """Record that a call failed; the error says whether it counts against the model."""
        if not error.counts_against_model:
            self.record_abandon(model_id)
            return
        now, before = self._clock.now_ms(), self.breaker(model_id)
        self._set(model_id, before.after_failure(now, self._policy, error.code))

    def record_abandon(self, model_id: str) -> None:
        """Record that a call was abandoned before it showed anything about the model."""
        self._set(model_id, self.breaker(model_id).after_abandon())

    def set_breaker(self, model_id: str, breaker: Breaker) -> None:
        """Set a breaker by hand; its `changed_at` must be later than that of the current one."""
        self._set(model_id, breaker)

    async def refresh(self) -> None:
        """Read what other processes have saved, unless that was done within `REFRESH_MS`.

        A store that fails or is slow delays no call: the breakers of this process stay in force.
        """
        if self._shared is None:
            return
        now = self._clock.monotonic_ms()
        if now < self.next_look_ms:
            return
        self.next_look_ms = now + REFRESH_MS
        try:
            async with asyncio.timeout(_STORE_S):
                entries = await self._shared.list_entries(OWNER)
        except Exception:
            logger.warning("The health of models could not be read.", exc_info=True)
            return
        for model_id, theirs in decode_breakers(entries):
            self._take_breaker(model_id, theirs)

    async def close(self) -> None:
        """Finish saving; changes that the store does not accept in time are dropped."""
        saving, self._saving = self._saving, None
        if saving is not None and not saving.done():
            await asyncio.wait([saving], timeout=_STORE_S)
            saving.cancel()
            await asyncio.wait([saving])

    def _take_breaker(self, model_id: str, theirs: Breaker) -> None:
        ours = self.breaker(model_id)
        if theirs.changed_at <= ours.changed_at or theirs == ours:
            return
        if theirs.state is BreakerState.HALF_OPEN:
            # The other process makes the one probe of this cooldown.
            theirs = msgspec.structs.replace(theirs, state=BreakerState.OPEN)
        self.breakers[model_id] = msgspec.structs.replace(theirs, probes=0)

    def _set(self, model_id: str, breaker: Breaker) -> None:
        before = self.breaker(model_id)
        if breaker is before:
            return
        self.breakers[model_id] = breaker
        if breaker.changed_at == before.changed_at:
            return
        level = logging.WARNING if breaker.state is BreakerState.OPEN else logging.INFO
        logger.log(level, "Model '%s': breaker %s -> %s.", model_id, before.state, breaker.state)
        if self._shared is not None:
            self._unsaved[model_id] = breaker
            if self._saving is None or self._saving.done():
                self._saving = asyncio.get_running_loop().create_task(self._save(self._shared))

    async def _save(self, shared: ProfileStore) -> None:
        while self._unsaved:
            model_id = next(iter(self._unsaved))
            breaker = self._unsaved.pop(model_id)
            newer = partial(_newer, breaker)
            try:
                async with asyncio.timeout(_STORE_S):
                    await shared.change_entry(OWNER, model_id, newer, now=self._clock.now_ms())
            except Exception:
                logger.warning("The health of '%s' was not saved.", model_id, exc_info=True)


def _newer(ours: Breaker, stored: Any) -> Any:
    """The value to store: ours, unless another process has stored a later change."""
    try:
        theirs = msgspec.convert(stored, Breaker | None)
    except msgspec.ValidationError:
        theirs = None
    is_old = theirs is not None and theirs.changed_at > ours.changed_at
    return stored if is_old else msgspec.to_builtins(ours)


def decode_breakers(entries: Iterable[ProfileEntry]) -> list[tuple[str, Breaker]]:
    """The breakers among an owner's entries, by model id; other entries are skipped and logged."""
    found = []
    for entry in entries:
        try:
            found.append((entry.key, msgspec.convert(entry.value, Breaker)))
        except msgspec.ValidationError:
            logger.warning("Profile entry '%s' of %s is no breaker.", entry.key, entry.owner)
    return found
