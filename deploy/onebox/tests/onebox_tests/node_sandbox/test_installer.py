"""What the installer says, read: its progress, and why it failed."""

from __future__ import annotations

import pytest

from onebox.node.installer import Progress, explain_failure


def test_progress_is_told_in_bytes_and_packages():
    progress = Progress()
    lines = [
        "Using Python 3.11.7 environment at: x",
        "Resolved 38 packages in 265ms",
        "Downloading numpy (16.0MiB)",
        "Downloading tensorflow-cpu (260.0MiB)",
        " Downloaded numpy",
        " Downloaded tensorflow-cpu",
        "Prepared 38 packages in 9.70s",
        "Installed 38 packages in 408ms",
        "Bytecode compiled 4861 files in 7.46s",
        " + numpy==2.4.6",
    ]
    assert [text for text in map(progress.read, lines) if text] == [
        "Resolved 38 packages in 265ms",
        "Downloaded 0 of 16 MiB, waiting for numpy",
        "Downloaded 0 of 276 MiB, waiting for tensorflow-cpu",
        "Downloaded 16 of 276 MiB, waiting for tensorflow-cpu",
        "Downloaded 276 of 276 MiB",
        "Prepared 38 packages in 9.70s",
        "Installed 38 packages in 408ms; compiling bytecode",
        "Bytecode compiled 4861 files in 7.46s",
    ]
    assert (progress.packages, progress.is_installed) == (38, True)


UNSATISFIABLE = """\
Using Python 3.11.7 environment at: envt
error: No solution found when resolving dependencies
  cause: Because there is no version of x==99.9 and you require x==99.9, we can conclude that it is so.
"""
UNREACHABLE = """\
error: Failed to fetch: http://user:secret@mirror/simple/six/
  cause: client error (Connect)
  cause: Connection refused (os error 111)

hint: x
"""
NOT_BUILT = """\
error: The build backend returned an error
  cause: Call to `x` failed

         [stderr]
         boom: compiler missing
"""
PIP = """\
Collecting x
ERROR: Could not find a version
ERROR: No matching distribution found
"""


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            UNSATISFIABLE,
            (
                "No solution found when resolving dependencies: Because there is no version of "
                "x==99.9 and you require x==99.9, we can conclude that it is so."
            ),
        ),
        (
            UNREACHABLE,
            "Failed to fetch: http://mirror/simple/six/: Connection refused (os error 111)",
        ),
        (
            NOT_BUILT,
            "The build backend returned an error: Call to `x` failed [stderr] boom: compiler missing",
        ),
        (PIP, "No matching distribution found"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "no reason was given"),
    ],
)
def test_the_installers_reason_is_found(output, reason):
    assert explain_failure(output.splitlines()) == reason
