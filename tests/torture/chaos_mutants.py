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
                "            if is_held and self.closed_by is None and isinstance(error,"
                " StoreUnavailable):\n                await self._write_later(commit, last)\n"
                "            # The store may have written the commit, and only its reply was"
                " lost.\n"
                "            elif not await self._resolve(commit):\n                raise\n",
                "            raise\n",
            ),
        ),
    ),
    Mutant(
        name="a run fails with its store",
        stage="pgchaos --restarts 24 --cuts 0",
        edits=(
            ("runtime/loop/loop.py", " and run.is_recoverable:\n", " and not run:\n"),
            # Else its commits wait until the store is back.
            ("runtime/journal/journal.py", " and lease.patience_ms > 0\n", " and not lease\n"),
        ),
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
                "                keeper = self._beat(keeper, due[0], is_look=due[1])\n",
                "                ran = threading.Event()\n"
                "                held = next(iter(self._held.values()))\n"
                "                held.loop.call_soon_threadsafe(ran.set)\n"
                "                ran.wait(60)\n"
                "                keeper = self._beat(keeper, due[0], is_look=due[1])\n",
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
    Mutant(
        name="cluster: a reader waits for signals alone",
        stage="pytest scenarios/test_without_a_carrier.py -k see_event",
        edits=(
            (
                "services/event_streams.py",
                "        limit = pause if self._hub.engine.store.is_shared else SILENCE_S\n",
                "        limit = SILENCE_S\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: after an outage of NATS followers are not told to look",
        stage="pytest unit/buses/test_nats_bus.py -k killed_server",
        edits=(
            (
                "buses/nats/bus.py",
                "                self._local.call_for_unheard(thread_id)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: a password goes to a server without TLS",
        stage="pytest unit/buses/test_nats_address.py -k tls",
        edits=(("buses/nats/connection.py", "        if self._is_tls:\n", "        if False:\n"),),
    ),
    Mutant(
        name="cluster: a close that the client of NATS swallows is lost",
        stage="pytest unit/buses/test_nats_bus.py -k swallows",
        edits=(
            (
                "buses/nats/bus.py",
                "        while self._task is not None:\n",
                "        while True:\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: installations on one NATS hear each other",
        stage="pytest unit/buses/test_nats_bus.py -k installations",
        edits=(
            (
                "buses/nats/bus.py",
                '        self._root = f"aw.{self._address.options.namespace}"\n',
                '        self._root = "aw.one"\n',
            ),
        ),
    ),
    Mutant(
        name="cluster: a cancel that the ending process knows alone is acknowledged",
        stage="pytest scenarios/test_acknowledged_control.py -k asked_for_again",
        edits=(
            (
                "runtime/engine.py",
                "not (run.token.is_cancelled or active.is_left):\n            return False\n",
                "not active.is_left:\n            return run.token.is_cancelled\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: a message that a run took in as it ended names no run",
        stage="pytest conformance/test_memory_store.py -k takes_in_as_it_ends",
        edits=(
            (
                "stores/rules/claims.py",
                "        is_over and run.dispatch_id == held.dispatch_id\n",
                "        is_over and run.dispatch_id is None\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: a sweep reads every thread",
        stage="pytest unit/stores/test_large_stores.py",
        edits=(
            (
                "stores/postgres/claim_order.py",
                '        "look_again": _LOOK_AGAIN,\n',
                "",
            ),
        ),
    ),
    Mutant(
        name="cluster: a node that was declared over beats on",
        stage="pytest unit/stores/test_nodes.py -k stays_over",
        edits=(
            (
                "stores/postgres/nodes.py",
                '    " WHERE node_id = $1 AND NOT is_over RETURNING 1"\n',
                '    " WHERE node_id = $1 RETURNING 1"\n',
            ),
        ),
    ),
    Mutant(
        name="cluster: a contract is made while an older process lives",
        stage="pytest unit/cli/test_db.py -k contract",
        edits=(("cli/db.py", "    if others:\n", "    if others is None:\n"),),
    ),
    Mutant(
        name="cluster: a transaction leaves its settings in a session of the pooler",
        stage="pytest unit/stores/test_postgres_pooler.py -k ten_sessions",
        edits=(
            (
                "stores/postgres/connection.py",
                "{make_settings(server, 'SET LOCAL')}",
                "{make_settings(server, 'SET')}",
            ),
        ),
    ),
    Mutant(
        name="cluster: a reader attaches, then looks at what is unfinished",
        stage="pytest unit/services/test_remote_source.py -k no_schedule",
        edits=(
            (
                "services/event_streams.py",
                "        until, unfinished = run.event_seq,",
                "        await asyncio.sleep(0)\n        until, unfinished = run.event_seq,",
            ),
        ),
    ),
    Mutant(
        name="cluster: a snapshot has what the next frame brings again",
        stage="pytest scenarios/test_live_frames.py -k of_one_moment",
        edits=(
            (
                "services/watched_runs.py",
                "        self._collect(watched, now)\n        run = watched.run\n",
                "        run = watched.run\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: a thread that was taken back is claimed under its old token",
        stage="schedule_sweep --scenarios late_commit,late_end --schedules 200",
        edits=(
            (
                "stores/memory/claims.py",
                "mark_claimed(dispatch, token, worker_id, now)",
                'mark_claimed(dispatch, f"of {dispatch.thread_id}", worker_id, now)',
            ),
        ),
    ),
    Mutant(
        name="cluster: a thread of a dead node is claimed under its old token",
        stage="pytest unit/stores/test_node_schedules.py",
        edits=(
            (
                "stores/sql/claims.py",
                "mark_claimed(first, next(tokens), worker_id, now.wall_ms)",
                'mark_claimed(first, f"of {row[0]}", worker_id, now.wall_ms)',
            ),
        ),
    ),
    Mutant(
        name="cluster: a guessed commit does not compare the token of the claim",
        stage="pytest unit/stores/test_postgres_guesses.py -k lost_its_thread",
        edits=(
            (
                "stores/postgres/composing.py",
                ', "claim_token": known.row[9]}',
                "}",
            ),
        ),
    ),
    Mutant(
        name="cluster: only a process with a worker hears what is asked of its runs",
        stage="pytest scenarios/test_signals_between_processes.py -k reaches_a_run",
        edits=(
            (
                "bootstrap/node.py",
                "            self._signals.open()\n\n    def start_worker",
                "            pass\n\n    def start_worker",
            ),
            (
                "bootstrap/node.py",
                "            self._worker.start()\n",
                "            self._signals.open()\n            self._worker.start()\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: a worker that drains hears nothing any more",
        stage="pytest scenarios/test_signals_between_processes.py -k process_that_drains",
        edits=(
            (
                "bootstrap/node.py",
                "        async with AsyncExitStack() as last_first:\n",
                "        if self._signals is not None:\n"
                "            self._signals.close()\n"
                "        async with AsyncExitStack() as last_first:\n",
            ),
        ),
    ),
    Mutant(
        name="cluster: tenants wait in the order of arrival only",
        stage="pytest unit/stores/test_claim_order.py -k tenant_with_one_run",
        edits=(
            (
                "stores/postgres/claim_order.py",
                "turn_at, head_no) AS share\n    FROM candidates",
                "turn_at, head_no) * 0 - busy.claims AS share\n    FROM candidates",
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
