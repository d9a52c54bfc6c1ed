"""What must stay as it is when the code behind it changes, as files that the running code wrote.

Each file of `files/` is one subject, written by one function that asks the code: over HTTP, by
websocket, on the command line; what is typed and sent lies in `given/`. `python -m tests.recorded`
writes all of them (`-k` some); `test_recorded.py` compares them with what the code says now. What is
meant to change is written anew, in the commit that changes it.

Held elsewhere, and not here:
- labels, annotations and names of what a training, a notebook, a TensorBoard, a namespace and a
  rescue consist of, and what their pods are given: `tests/manifests/golden`;
- settings and their defaults: the table of docs/settings.md (`tests/repository/test_documents.py`);
- exit codes of the command line: docs/users/cli.md (`tests/jobs/client/test_documents.py`);
- what each relation is told by each method, by session and by token, for an own, another's and an
  absent thing: `tests/portal/routes/table.py`, in words; `addresses.txt` has the statuses;
- websockets, who may open which: the same table;
- data of earlier versions, with sessions, tokens and links in it: `tests/upgrade`.
"""

from pathlib import Path

GIVEN = Path(__file__).parent / "given"  # what the code is asked
FILES = Path(__file__).parent / "files"  # what it said
WRITE = "HOMEPORT_WRITE_GOLDEN"  # in the environment: files are written, as in tests/manifests
