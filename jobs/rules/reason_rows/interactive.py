"""What notebooks and TensorBoards say of themselves."""

from jobs.rules.reason_rows.steps import TELL_ADMIN, WAIT

ROWS: dict[str, tuple[str, str]] = {
    "app_starting": ("{program} is starting.", WAIT),
    "app_restarting": (
        "{cause} It starts again.",
        "No action needed; after the third time within 10 minutes it fails.",
    ),
    "app_crash_loop": (
        "{who} ended {count} times within 10 minutes. Last time: {cause}",
        "Start it again with more memory or another image.",
    ),
    "app_ended": ("{program} ended: {detail}", "Start it again."),
    "app_missing": (
        "{program} cannot be started in the image {image}: {detail}",
        "Choose an image that has {program}.",
    ),
    "never_ready": (
        "{program} did not respond within {waited}: {detail}",
        "Start it again; tell your admin if it repeats.",
    ),
    "not_answering": (
        "{program} does not respond: {detail}",
        "It may be busy. Stop it and start it again if this lasts.",
    ),
    "prepare_failed": ("Its pod could not be prepared: {detail}", TELL_ADMIN),
    "gate_failed": ("The gate in front of it cannot start: {detail}", TELL_ADMIN),
    "max_duration": (
        "{program} has run for {most}, which is as long as it may here.",
        "What is on the volumes is kept; start it again when you need it.",
    ),
    "shut_down": ("{program} was shut down from inside.", "Start it again when you need it."),
    "starting_again": ("It is stopped first and then starts again.", WAIT),
    "owner_disabled": ("The account of its owner is disabled.", "Ask your admin."),
}
