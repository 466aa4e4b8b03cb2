"""`awaken eval`: datasets, evals, comparisons and gates."""

from .command_line import new_app
from .eval_datasets import app as datasets
from .eval_fixtures import check_reports, replay_fixtures
from .eval_run import commands
from .eval_stored import calibrate_scorer, compare_results, score_again

app = new_app("Try agents with the cases of a dataset: score, compare, gate.")
app.registered_commands += commands.registered_commands
app.command("compare")(compare_results)
app.command("score")(score_again)
app.command("calibrate")(calibrate_scorer)
app.command("replay")(replay_fixtures)
app.command("check")(check_reports)
app.registered_commands.extend(datasets.registered_commands)
