"""Days of reports in virtual time, over the night in which clocks change."""

import asyncio
import unittest
from datetime import UTC, datetime

from app import plan_report, reporter

from awaken import AgentRuntime, MailboxConfig
from awaken.stores import MemoryStore
from awaken.testing import LoopClock, replay

FRIDAY = int(datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp() * 1000)
DAY_S = 24 * 3600
# A worker that looks for work by itself once an hour: days of virtual time then take few steps.
SLOW = MailboxConfig(poll_ms=3_600_000, sweep_ms=3_600_000)


def open_runtime() -> AgentRuntime:
    clock = LoopClock(FRIDAY)
    return AgentRuntime([reporter], clock=clock, store=MemoryStore(clock=clock), mailbox=SLOW)


async def four_days() -> list[datetime]:
    async with open_runtime() as runtime:
        await plan_report(runtime)
        await asyncio.sleep(4 * DAY_S)
        firings = (await runtime.schedules.firings("daily-report")).items
        results = [await runtime.wait(it.run_id or "") for it in firings]
    assert {it.text for it in results} == {"Sales fell, and recovered."}
    assert {it.thread_id for it in results} == {"reports"}
    return [datetime.fromtimestamp(it.due_at / 1000, UTC) for it in firings]


async def a_pause() -> int:
    async with open_runtime() as runtime:
        await plan_report(runtime)
        await runtime.schedules.pause("daily-report")
        await asyncio.sleep(2 * DAY_S)
        await runtime.schedules.resume("daily-report")
        await asyncio.sleep(2 * DAY_S)
        return len((await runtime.schedules.firings("daily-report")).items)


async def a_report_now() -> tuple[str, bool]:
    async with open_runtime() as runtime:
        await plan_report(runtime)
        firing = await runtime.schedules.fire("daily-report")
        result = await runtime.wait(firing.run_id or "")
        after = await runtime.schedules.get("daily-report")
        return result.text, after.next_due is not None


class DailyReportTest(unittest.TestCase):
    def test_each_morning_has_one_report_at_eight_local_time(self) -> None:
        due = replay(four_days, seed=1)
        # On Sunday clocks in Berlin go forward.
        self.assertEqual([(it.day, it.hour) for it in due], [(28, 7), (29, 6), (30, 6), (31, 6)])

    def test_there_is_no_report_while_the_schedule_is_paused(self) -> None:
        self.assertEqual(replay(a_pause, seed=1), 2)

    def test_a_person_can_have_the_report_now(self) -> None:
        self.assertEqual(replay(a_report_now, seed=1), ("Sales fell, and recovered.", True))


if __name__ == "__main__":
    unittest.main()
