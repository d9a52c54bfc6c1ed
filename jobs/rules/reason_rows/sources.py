"""Why the code did not reach a replica: its source, git, the archive, the volumes it is written to."""

from jobs.rules.reason_rows.steps import READ_LOG, TELL_ADMIN

ROWS: dict[str, tuple[str, str]] = {
    "source_unreachable": (
        "{who} could not get the code: {detail}",
        "Check the address or path, and that pods may reach it; or upload the code.",
    ),
    "sha256_mismatch": (
        "The code that {who} fetched does not match its sha256: {detail}",
        "Correct the sha256, or find out why the file changed.",
    ),
    "git_denied": (
        "{who} may not read the git repository: {detail}",
        "Check the address, and of a private repository the secret with its password or key.",
    ),
    "git_host_key": (
        "The git server did not show {who} a key that the secret knows: {detail}",
        "Ask whoever runs the server; put a new key of it into known_hosts.",
    ),
    "git_ref": (
        "{who} did not find the requested revision: {detail}",
        "Correct the branch or tag, or give a commit with all of its digits.",
    ),
    "git_gone": (
        "The commit that this training uses is gone: {detail}",
        "Submit again with the newest commit, or push that commit again.",
    ),
    "git_path": (
        "{who} did not find the folder in the git repository: {detail}",
        "Correct the folder; it is relative to the top of the repository.",
    ),
    "no_git": (
        "{who} cannot fetch from git on its node: {detail}",
        "Tell your admin: the image that fetches code needs the program git.",
    ),
    "bundle_unsafe": (
        "The code was refused: {detail}",
        "Submit it again without that, as plain files and folders; put data on the data volume.",
    ),
    "bundle_broken": ("The code archive cannot be read: {detail}", "Create and upload it again."),
    "bundle_too_large": (
        "The code is too large: {detail}",
        "Put data on the data volume instead of into the code.",
    ),
    "volume_not_writable": ("A volume cannot be written by {who}: {detail}", TELL_ADMIN),
    "volume_full": (
        "A volume is full: {detail}",
        "Delete what you no longer need from the data and log volumes.",
    ),
    "fetch_failed": ("{who} could not prepare the code: {detail}", READ_LOG),
}
