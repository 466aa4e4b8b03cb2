"""Runs of workflows: a function of steps that is entered again, and answered from its journal.

Start at `driver.drive_workflow`. `flow` has the steps, `step_journal` compares them with what was
recorded, `branches` knows when all of them wait, and `live_steps` executes what is new.
"""
