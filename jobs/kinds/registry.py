"""All kinds of workloads, by their keys: the only list of them."""

from collections.abc import Mapping

from django.utils.functional import lazy
from django.utils.text import get_text_list
from django.utils.translation import gettext

from jobs.kinds.base import WorkloadKind
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.kinds.training.kind import TRAINING

_ALL = (
    TRAINING,
    NOTEBOOK,
    TENSORBOARD,
)
KINDS: Mapping[str, WorkloadKind] = {kind.key: kind for kind in _ALL}
# Keys of those of a sort, for filters of rows.
ARCHIVED = tuple(kind.key for kind in KINDS.values() if kind.is_archived)
TAKE_CODE = tuple(kind.key for kind in KINDS.values() if kind.takes_code)
STAY_AT_HAND = tuple(kind.key for kind in KINDS.values() if kind.pages.stays_at_hand)
WITH_GATE = tuple(kind.key for kind in KINDS.values() if kind.has_gate)
# What these are called together: "Notebooks and TensorBoards".
SERVED_TITLE = lazy(
    lambda: get_text_list([str(KINDS[key].pages.title) for key in WITH_GATE], gettext("and")), str
)()
