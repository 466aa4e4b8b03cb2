"""Three days pass in milliseconds: the tests run in virtual time."""

import asyncio
import unittest

from app import Receipt, refund

from awaken.testing import make_virtual_runtime, run_in_virtual_time, wait_for_end

ORDER = {"order": {"id": "A-1", "amount": 120}}


class RefundTest(unittest.TestCase):
    """What becomes of a refund."""

    def test_a_parcel_that_does_not_come_ends_the_refund_after_three_days(self) -> None:
        async def story() -> tuple[Receipt, int]:
            async with make_virtual_runtime([refund]) as runtime:
                started = await runtime.run("refund", ORDER)
                result = await wait_for_end(runtime, started.run_id)
                run = await runtime.get_run(started.run_id)
                return result.output, (run.finished_at or 0) - run.created_at

        receipt, took_ms = run_in_virtual_time(story)
        self.assertEqual(receipt.note, "the parcel did not come")
        self.assertAlmostEqual(took_ms / 86_400_000, 3, places=2)

    def test_a_small_refund_is_paid_without_a_question(self) -> None:
        async def story() -> Receipt:
            async with make_virtual_runtime([refund]) as runtime:
                started = await runtime.run("refund", {"order": {"id": "B-1", "amount": 20}})
                await runtime.send_event(started.run_id, "parcel", {"weight": 1})
                receipt: Receipt = (await wait_for_end(runtime, started.run_id)).output
                return receipt

        self.assertEqual(run_in_virtual_time(story), Receipt("B-1", 20, "payment-B-1"))

    def test_a_large_refund_is_approved_and_paid(self) -> None:
        async def story() -> Receipt:
            async with make_virtual_runtime([refund]) as runtime:
                started = await runtime.run("refund", ORDER)
                await runtime.send_event(started.run_id, "parcel", {"weight": 2})
                # Virtual, like the rest: the workflow has taken the event by then.
                await asyncio.sleep(60)
                (question,) = await runtime.tickets()
                await runtime.decide(question.ticket_id, "resume")
                receipt: Receipt = (await wait_for_end(runtime, started.run_id)).output
                return receipt

        self.assertEqual(run_in_virtual_time(story).paid, 120)


if __name__ == "__main__":
    unittest.main()
