"""A thread as the list of its commits, judged by reading all of it every time."""

from typing import Any

from awaken.contracts.lifecycle import (
    RUN_TRANSITIONS,
    TICKET_TRANSITIONS,
    RunStatus,
    TicketStatus,
)
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket

OPEN_TICKETS = (TicketStatus.OPEN, TicketStatus.DECIDED)


class BrokenRule(Exception):
    """The model found the history invalid."""


def need(is_kept: object, rule_text: str) -> None:
    if not is_kept:
        raise BrokenRule(rule_text)


class History:
    """One thread as the list of its commits; everything else is read from it."""

    def __init__(self, commits: list[Commit]) -> None:
        self.commits = commits

    @property
    def messages(self) -> list[Message]:
        return [message for commit in self.commits for message in commit.messages]

    @property
    def events(self) -> list[Any]:
        return [event for commit in self.commits for event in commit.events]

    @property
    def runs(self) -> dict[str, RunRecord]:
        return {commit.run.run_id: commit.run for commit in self.commits if commit.run}

    @property
    def tickets(self) -> dict[str, Ticket]:
        return {found.ticket_id: found for commit in self.commits for found in commit.tickets}

    @property
    def state(self) -> dict[str, StoredValue]:
        merged: dict[str, StoredValue | None] = {}
        for commit in self.commits:
            merged.update(commit.state)
        return {key: value for key, value in merged.items() if value is not None}

    @property
    def open_runs(self) -> list[RunRecord]:
        return [run for run in self.runs.values() if run.status is not RunStatus.DONE]

    def open_calls(self) -> dict[str, int]:
        """Read the transcript from the start: each open call, with the commit that asked."""
        unanswered: dict[str, int] = {}
        for at, commit in enumerate(self.commits):
            for message in commit.messages:
                if message.role is Role.TOOL:
                    need(message.tool_call_id in unanswered, "a result without an open call")
                    del unanswered[message.tool_call_id or ""]
                    continue
                need(not unanswered, "a message follows open calls")
                ids = [call.id for call in message.tool_calls or ()]
                need(len(set(ids)) == len(ids), "one call id twice")
                unanswered = dict.fromkeys(ids, at)
        return unanswered

    def check(self) -> None:
        """Raise `BrokenRule` if the history as a whole is not one that a store may hold."""
        ids = [message.id for message in self.messages]
        need(all(ids) and len(set(ids)) == len(ids), "message ids")
        self._check_runs()
        self._check_tickets()
        calls = self.open_calls()
        if not calls:
            return
        need(self.open_runs, "open calls without a run")
        status = self.open_runs[0].status
        need(status is not RunStatus.CREATED, "open calls before the run began")
        if status is RunStatus.WAITING:
            need(all(self._is_covered(*call) for call in calls.items()), "no ticket")

    def _check_runs(self) -> None:
        before: dict[str, RunStatus] = {}
        for run in (commit.run for commit in self.commits if commit.run):
            old = before.get(run.run_id, run.status)
            need(run.status in RUN_TRANSITIONS[old], "run move")
            need((run.waiting is not None) is (run.status is RunStatus.WAITING), "waiting")
            before[run.run_id] = run.status
        need(len(self.open_runs) <= 1, "two open runs")

    def _check_tickets(self) -> None:
        before: dict[str, Ticket] = {}
        for commit in self.commits:
            ids = [found.ticket_id for found in commit.tickets]
            need(len(set(ids)) == len(ids), "one ticket twice")
            for found in commit.tickets:
                old = before.get(found.ticket_id, found)
                need(found.status in TICKET_TRANSITIONS[old.status], "ticket move")
                need((old.run_id, old.call_id) == (found.run_id, found.call_id), "other call")
                need(old.decision in (None, found.decision), "other decision")
                need(found.run_id in self.runs, "ticket of no run")
                before[found.ticket_id] = found
        open_ids = [run.run_id for run in self.open_runs]
        for found in before.values():
            need(found.status is not TicketStatus.OPEN or found.run_id in open_ids, "dangling")

    def _is_covered(self, call_id: str, asked_at: int) -> bool:
        written = {
            found.ticket_id for commit in self.commits[asked_at:] for found in commit.tickets
        }
        return any(
            self.tickets[ticket_id].call_id == call_id
            and self.tickets[ticket_id].run_id == self.open_runs[0].run_id
            and self.tickets[ticket_id].status in OPEN_TICKETS
            for ticket_id in written
        )
