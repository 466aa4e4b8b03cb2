"""Calling the instruments of a run. Their exceptions are logged, and the run continues."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

from awaken.authoring.functions import is_interruption
from awaken.contracts.plugins.instruments import Instrument
from awaken.contracts.specs.agents import AgentSpec
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)

W = TypeVar("W")


class Watches(Generic[W]):
    """All instruments of a run watch the block."""

    __slots__ = ("_begin", "_entered", "_run")

    def __init__(self, run: Run, begin: Callable[[Instrument], AbstractContextManager[W]]) -> None:
        self._run = run
        self._begin = begin
        self._entered: list[tuple[AbstractContextManager[W], W]] = []

    def __enter__(self) -> "Watches[W]":
        for instrument in self._run.instruments:
            try:
                manager = self._begin(instrument)
                self._entered.append((manager, manager.__enter__()))
            except BaseException as error:
                if is_interruption(error):
                    raise
                logger.exception("An instrument failed to begin.")
        return self

    def tell(self, call: Callable[[W], None]) -> None:
        """Call each watch; a failing one does not stop the others."""
        for _, watch in self._entered:
            try:
                call(watch)
            except BaseException as error:
                if is_interruption(error):
                    raise
                logger.exception("An instrument failed.")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all watches, the last one first."""
        for manager, _ in reversed(self._entered):
            try:
                manager.__exit__(kind, error, trace)
            except BaseException as raised:
                if is_interruption(raised):
                    raise
                if raised is not error:
                    logger.exception("An instrument failed to end.")


def tell_handover(run: Run, agent: AgentSpec) -> None:
    """Notify the instruments of a run that another agent has taken it over."""
    for instrument in run.instruments:
        try:
            instrument.on_handoff(agent)
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("An instrument failed.")
