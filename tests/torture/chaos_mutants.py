"""Test the chaos stages: plant each of these bugs in a copy of the source, and see it caught.

`python -m tests.torture.chaos_mutants` plants all, `--rotate 4` some that change with the seed.
"""

from . import mutants
from .mutants import Mutant

MUTANTS = (
    Mutant(
        name="a commit needs no valid token",
        stage="schedule_sweep --scenarios paused_worker,late_commit --schedules 200",
        edits=(
            (
                "stores/rules/commits.py",
                "    if held is None or held.token != token:\n",
                "    if held is None:\n",
            ),
        ),
    ),
    Mutant(
        name="a stale release is accepted",
        stage="schedule_sweep --scenarios late_end --schedules 60",
        edits=(
            (
                "stores/rules/dispatches.py",
                "    if dispatch.claim_token != claim_token:\n",
                "    if dispatch.claim_token is None:\n",
            ),
        ),
    ),
    Mutant(
        name="a thread is claimed twice",
        stage="schedule_sweep --scenarios two_claimers --schedules 60",
        edits=(
            (
                "stores/memory/turns.py",
                "        entry = None if thread.claim is not None else self.find_first(thread)\n",
                "        entry = self.find_first(thread)\n",
            ),
            (
                "stores/memory/turns.py",
                "            if thread is None or thread.claim is not None:\n",
                "            if thread is None:\n",
            ),
        ),
    ),
    Mutant(
        name="a dedupe key is looked for, then inserted",
        stage="schedule_sweep --scenarios dedupe_race --schedules 40",
        edits=(
            (
                "stores/memory/mailbox.py",
                "from awaken.contracts.clock import Clock\n",
                "import asyncio\n\nfrom awaken.contracts.clock import Clock\n",
            ),
            (
                "stores/memory/mailbox.py",
                "        self._queues.check_run_id(dispatch)\n        thread =",
                "        self._queues.check_run_id(dispatch)\n"
                "        await asyncio.sleep(0)\n        thread =",
            ),
            (
                "stores/memory/queues.py",
                "        known = self.find_known(dispatch)\n"
                "        if known is not None:\n            return known\n",
                "",
            ),
        ),
    ),
    Mutant(
        name="recovery looks once only",
        stage="schedule_sweep --scenarios killed_worker --schedules 40",
        edits=(
            (
                "mailbox/sweeper.py",
                "            await self.sweep()\n",
                "            if self._purged_at is None:\n                await self.sweep()\n",
            ),
        ),
    ),
    Mutant(
        name="a second decision on a ticket overwrites the first",
        stage="control_races --races 90",
        edits=(
            (
                "stores/rules/tickets.py",
                "        if ticket.status is not TicketStatus.OPEN:\n            raise",
                "        if ticket.status is TicketStatus.CLOSED:\n            raise",
            ),
            (
                "stores/rules/tickets.py",
                "        if taken is not None:\n            raise",
                "        if taken is not None and taken is given:\n            raise",
            ),
        ),
    ),
    Mutant(
        name="a run ends otherwise although its cancel was acknowledged",
        stage="control_races --races 600",
        edits=(
            (
                "stores/rules/claims.py",
                "not is_cancelled and not is_function and _is_wanted(head, run):\n",
                "not is_cancelled and is_function and _is_wanted(head, run):\n",
            ),
        ),
    ),
    Mutant(
        name="a cancel cause is dropped on take-over",
        stage="pytest scenarios/test_acknowledged_control.py -k cancel_outlives",
        edits=(
            (
                "stores/memory/claims.py",
                "        if thread.open_run is None:\n            thread.cancel_cause = None\n",
                "        thread.cancel_cause = None\n",
            ),
            (
                "stores/sql/claims.py",
                "    if head.open_run is None:\n        head.cancel_cause = None\n",
                "    head.cancel_cause = None\n",
            ),
        ),
    ),
    Mutant(
        name="last words become pending",
        stage="pytest scenarios/test_acknowledged_control.py -k whoever_flushes",
        edits=(
            (
                "runtime/journal/journal.py",
                "        try:\n            if self.closed_by is not None:\n",
                "        if last is not None:\n"
                "            self.events.append(last.event)\n"
                "        try:\n            if self.closed_by is not None:\n",
            ),
            (
                "runtime/journal/journal.py",
                "            events, outbox, release = (*events, last.event), ",
                "            events, outbox, release = events, ",
            ),
            (
                "runtime/journal/journal.py",
                "        del self.events[: events if last is None else events - 1]\n",
                "        del self.events[:events]\n",
            ),
        ),
    ),
    Mutant(
        name="a reader attaches, then looks at the log",
        stage="schedule_sweep --scenarios attaching_reader --schedules 200",
        edits=(
            (
                "runtime/admission/handles.py",
                "        until, unfinished =",
                "        await asyncio.sleep(0)\n        until, unfinished =",
            ),
        ),
    ),
    Mutant(
        name="a lost reply counts as a failure",
        stage="pgchaos --restarts 0 --cuts 6",
        edits=(
            (
                "runtime/journal/journal.py",
                "            if not await self._resolve(commit):\n                raise\n",
                "            raise\n",
            ),
        ),
    ),
    Mutant(
        name="a run fails with its store",
        stage="pgchaos --restarts 24 --cuts 0",
        edits=(("runtime/loop/loop.py", " and run.is_delivered:\n", " and not run:\n"),),
    ),
    Mutant(
        name="leases are judged by the process's own clock",
        stage="starvation --only skewed",
        edits=(
            (
                "stores/sqlite/clock.py",
                "    return Moment(wall_ms=wall_ms, lease_ms=lease_ms)\n",
                "    return Moment(wall_ms=wall_ms, lease_ms=wall_ms + lease_ms * 0)\n",
            ),
        ),
    ),
    Mutant(
        name="what is due is judged by the process's own clock",
        stage="starvation --only sender",
        edits=(
            (
                "stores/rules/dispatches.py",
                " if dispatch.available_at > dispatch.updated_at else 0\n",
                "\n",
            ),
        ),
    ),
    Mutant(
        name="the heartbeat needs the event loop",
        stage="starvation --only blocked",
        edits=(
            (
                "mailbox/heartbeat.py",
                "                keeper = self._beat(keeper, tokens)\n",
                "                ran = threading.Event()\n"
                "                held = next(iter(self._held.values()))\n"
                "                held.loop.call_soon_threadsafe(ran.set)\n"
                "                ran.wait(60)\n"
                "                keeper = self._beat(keeper, tokens)\n",
            ),
        ),
    ),
    Mutant(
        name="a closed runtime keeps its heartbeat",
        stage="leaks --runs 100 --stores sqlite",
        edits=(
            (
                "mailbox/heartbeat.py",
                "            thread, self._thread = self._thread, None\n",
                "            thread = None\n",
            ),
        ),
    ),
)
"""Each with the stage that catches it, at a small size."""


def planted() -> list[Mutant]:
    """Every planted bug."""
    return list(MUTANTS)


def main() -> None:
    """Plant, and exit with 1 when a bug was missed."""
    mutants.planted = planted
    mutants.main()


if __name__ == "__main__":
    main()
