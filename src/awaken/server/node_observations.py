"""The counters of what this process does with the others: leases, signals, frames, statements."""

from awaken.contracts.storage.bus import SignalKind
from awaken.contracts.storage.inspection import OPS

from .metrics import Counter, Histogram


class NodeObservations:
    """Watches the leases, the bus, the live events and the database of a process.

    Series that are known from the start begin at 0, so that a rate sees the first of each. None is
    added later by `on_statement`, which also the thread of the heartbeat calls.
    """

    def __init__(self) -> None:
        name = "awaken_leases_lost_total"
        self.leases_lost = Counter(name, "Runs that stopped here because another process has them.")
        self.leases_lost.add(0)
        told = ("kind", "result")
        self.signals = Counter("awaken_signals_total", "Signals between processes.", *told)
        went = ("way", "result")
        self.frames = Counter("awaken_frames_total", "Frames with live events.", *went)
        name = "awaken_frame_bytes_total"
        self.frame_bytes = Counter(name, "Bytes of packets with live events.", "way")
        for way, results in (("out", ("sent", "dropped")), ("in", ("taken", "ignored"))):
            self.frame_bytes.add(0, way)
            for result in results:
                self.frames.add(0, way, result)
        name = "awaken_frame_resyncs_total"
        self.resyncs = Counter(name, "Snapshots that were asked for because a frame was missing.")
        self.resyncs.add(0)
        self.lags = Histogram("awaken_remote_lag_seconds", "Age of frames when they are taken.")
        self.statements = Counter("awaken_sql_total", "Round trips to the database server.", "op")
        for op in OPS:
            self.statements.add(0, op)
        self.pool_waits = Histogram("awaken_pool_wait_seconds", "Waits for a connection.")

    def on_lease_lost(self) -> None:
        """Count a run that another process has."""
        self.leases_lost.add(1)

    def on_signals(self, kind: SignalKind, result: str, count: int) -> None:
        """Count signals."""
        self.signals.add(count, kind.value, result)

    def on_frames(self, way: str, result: str, count: int) -> None:
        """Count frames."""
        self.frames.add(count, way, result)

    def on_packet(self, way: str, size: int) -> None:
        """Count the bytes of a packet."""
        self.frame_bytes.add(size, way)

    def on_resync(self) -> None:
        """Count a snapshot that was asked for again."""
        self.resyncs.add(1)

    def on_lag(self, ms: int) -> None:
        """Count the age of a frame."""
        self.lags.observe(ms)

    def on_statement(self, op: str) -> None:
        """Count a round trip."""
        self.statements.add(1, op)

    def on_pool_wait(self, ms: float) -> None:
        """Count a wait for a connection."""
        self.pool_waits.observe(ms)
