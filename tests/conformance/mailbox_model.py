"""A mailbox as plain lists: every answer is worked out anew from all that is there."""

from dataclasses import dataclass, field

QUEUED, CLAIMED, ACKED = "queued", "claimed", "acked"
SUPERSEDED, CANCELLED, DEAD = "superseded", "cancelled", "dead_letter"


@dataclass
class Item:
    """One dispatch."""

    name: str
    thread: str
    run: str
    asks: str
    key: str | None
    mode: str
    priority: int
    arrival: int
    created: int
    due: int
    epoch: int
    status: str = QUEUED
    attempts: int = 0
    token: str | None = None
    cause: str | None = None
    ended: int | None = None
    taken_by: str | None = None

    @property
    def shown(self) -> tuple[object, ...]:
        return (
            *(self.name, self.thread, self.run, self.mode, self.priority, self.key),
            *(self.created, self.due, self.epoch, self.status, self.attempts),
            *(self.token, self.cause, self.ended),
        )


@dataclass
class Hold:
    """A claim; without an item, one that a commit took."""

    token: str
    until: int
    item: Item | None = None


@dataclass
class Line:
    """One thread."""

    epoch: int = 0
    version: int = 0
    served: int = 0
    hold: Hold | None = None
    open_run: str | None = None
    is_waiting: bool = False
    begun_by: str | None = None
    """The item that the open run was begun by."""
    cause: str | None = None
    """Why the open run is to be cancelled; without one, what is executed under the claim."""


@dataclass
class Model:
    """All threads and dispatches."""

    now: int
    lines: dict[str, Line] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    arrived: int = 0

    def find(self, name: str) -> Item | None:
        return next((item for item in self.items if item.name == name), None)

    def queue(self, thread: str) -> list[Item]:
        found = [it for it in self.items if it.thread == thread and it.status == QUEUED]
        return sorted(found, key=lambda it: (it.priority, it.arrival))

    def line(self, thread: str) -> Line:
        return self.lines.setdefault(thread, Line())

    def same(self, name: str, thread: str, asks: str, key: str | None, mode: str) -> Item | str:
        """What a submission meets: an item, or the name of the refusal, or nothing ('')."""
        known = self.find(name)
        if known is None and key is not None:
            named = [it for it in self.items if (it.thread, it.key) == (thread, key)]
            known = named[0] if named else None
        if known is None:
            return ""
        # What is asked for is hashed with its mode; under a key it may come out as another one.
        fits_mode = known.name != name or known.mode == mode
        if (known.thread, known.asks) == (thread, asks) and fits_mode:
            return known
        return "AlreadyExists" if known.name == name else "DedupeConflict"

    def add(self, item: Item) -> Item:
        self.arrived += 1
        item.arrival, item.created, item.epoch = (
            self.arrived,
            self.now,
            self.line(item.thread).epoch,
        )
        self.items.append(item)
        return item

    def is_stale(self, item: Item) -> bool:
        line = self.line(item.thread)
        return item.epoch < line.epoch and line.open_run != item.run

    def next_item(self) -> Item | None:
        """The first item of the thread whose turn it is; stale ones are dropped on the way."""
        while True:
            heads = [self.queue(name)[0] for name in self.lines if self.queue(name)]
            ready = [it for it in heads if self.line(it.thread).hold is None and it.due <= self.now]
            if not ready:
                return None
            turns = {it.name: max(it.created, self.line(it.thread).served) for it in ready}
            first = min(ready, key=lambda it: (it.priority, turns[it.name], it.arrival))
            if not self.is_stale(first):
                return first
            self.end(first, SUPERSEDED)

    def claim(self, item: Item, token: str, lease: int) -> None:
        line = self.line(item.thread)
        item.status, item.token, item.attempts = CLAIMED, token, item.attempts + 1
        line.hold = Hold(token, self.now + lease, item)
        if line.open_run is None or (line.cause is None and self.goes_on_with(item, line.open_run)):
            line.cause = item.cause
        line.served = self.now

    def goes_on_with(self, item: Item, run: str) -> bool:
        return run in (item.run, item.taken_by) or self.line(item.thread).begun_by == item.name

    def end(self, item: Item, status: str) -> None:
        line = self.line(item.thread)
        hold = line.hold if item.status == CLAIMED else None
        item.status, item.token, item.ended = status, None, self.now
        if hold is not None:
            line.hold = None
            self.leave(item.thread, hold)

    def leave(self, thread: str, hold: Hold, back: Item | None = None) -> None:
        """A claim is over: a run that is to be cancelled needs somebody who ends it."""
        line = self.line(thread)
        if line.open_run is None:
            line.cause = None
        elif line.cause is not None and not (back and self.goes_on_with(back, line.open_run)):
            self.add_rest(thread, hold, attempts=0)

    def put_back(self, item: Item, delay: int, charge: int) -> None:
        line = self.line(item.thread)
        hold, line.hold = line.hold, None
        assert hold is not None
        item.status, item.token, item.due = QUEUED, None, self.now + delay
        item.attempts -= 1 - charge
        self.leave(item.thread, hold, item)

    def go_on(self, thread: str, attempts: int) -> Item | None:
        """End a claim without an item; what goes on with the open run is queued."""
        line = self.line(thread)
        hold, line.hold = line.hold, None
        assert hold is not None
        if line.open_run is None:
            line.cause = None
            return None
        if line.is_waiting and line.cause is None:
            return None
        return self.add_rest(thread, hold, attempts)

    def add_rest(self, thread: str, hold: Hold, attempts: int) -> Item:
        """Queue what goes on with the open run after a claim, or ends it as it was asked to."""
        line = self.line(thread)
        assert line.open_run is not None
        made = Item(
            name=f"recovered:{hold.token}",
            thread=thread,
            run=line.open_run,
            asks="",
            key=None,
            mode="queue",
            priority=0,
            arrival=0,
            created=0,
            due=self.now,
            epoch=0,
            attempts=attempts,
            cause=line.cause,
        )
        return self.add(made)

    def want_cancel(self, thread: str, cause: str, run: str | None = None) -> bool:
        """Only the run that is named is meant: the open one, or what the claim will begin."""
        hold = self.lines[thread].hold if thread in self.lines else None
        if hold is None:
            return False
        line, item = self.lines[thread], hold.item
        is_items = item is not None and run in (None, item.run, item.taken_by)
        if run is not None and run != line.open_run and not is_items:
            return False
        if run is None or line.open_run in (None, run):
            line.cause = line.cause or cause
        if item is not None and is_items:
            item.cause = item.cause or cause
        return True

    def interrupt(self, thread: str, cause: str) -> list[str]:
        line = self.line(thread)
        line.epoch += 1
        is_held = self.want_cancel(thread, cause)
        dropped = []
        for item in self.queue(thread):
            is_needed = not line.is_waiting or line.cause is not None
            if not is_held and item.run == line.open_run and is_needed:
                item.cause, item.due = item.cause or cause, self.now
            else:
                self.end(item, SUPERSEDED)
                dropped.append(item.name)
        return dropped

    def inputs(self, thread: str) -> list[Item]:
        return [
            it
            for it in self.queue(thread)
            if it.mode in ("steer", "resume") and it.due <= self.now and not self.is_stale(it)
        ]

    def reclaim(self, told: list[str]) -> list[str]:
        """Take back what has run out, ties in the order that was told."""
        gone: dict[str, str] = {}
        for thread, line in self.lines.items():
            if line.hold is not None and line.hold.until <= self.now:
                item = line.hold.item
                gone[f"recovered:{line.hold.token}" if item is None else item.name] = thread
        order = sorted(gone, key=lambda name: told.index(name) if name in told else len(told))
        back: list[str] = []
        for name in order:
            item = self.find(name)
            if item is not None:
                self.put_back(item, 0, 1)
            else:
                item = self.go_on(gone[name], attempts=1)
            if item is not None:
                back.append(item.name)
        return back

    def delete(self, thread: str) -> None:
        del self.lines[thread]
        self.items = [it for it in self.items if it.thread != thread]

    def purge(self, before: int) -> int:
        old = [it for it in self.items if it.ended is not None and it.ended < before]
        self.items = [it for it in self.items if it not in old]
        return len(old)
