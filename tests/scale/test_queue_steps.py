"""What holds of the queue's decision, over 20,000 steps: see `tests/jobs/rules/test_queue_properties.py`."""

from hypothesis import settings

from tests.jobs.rules.test_queue_properties import STEPS_EACH, QueueMachine


class ManySteps(QueueMachine):
    """The same machine."""


ManySteps.TestCase.settings = settings(
    QueueMachine.TestCase.settings, max_examples=20_000 // STEPS_EACH
)
TestManySteps = ManySteps.TestCase
