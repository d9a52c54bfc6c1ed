"""Programs that run inside the pods of a training; they import nothing else of Homeport.

`fetch.py` (init container, Homeport's image) brings the code in, `runner.py` (the user's container,
any Python from 3.6 on, copied there alone) runs the program and ships its log and artifacts,
`rescue.py` (Homeport's image) ships what a runner left behind. All three end with a termination
message: JSON with `reason` (a code), `text` (a sentence), `exit_code` and, of runner and rescue,
`uploaded`.

Reason codes:
    fetch (exit 65): source_unreachable, source_outside_volume, sha256_mismatch, bundle_unsafe,
        bundle_broken, bundle_too_large, volume_not_writable, volume_full.
    runner (exit 64): peer_unresolved, configuration_broken.
    runner (exit 126, 127): command_not_executable, command_not_found.
    runner, the program's own exit code (128 + n when signal n killed it): completed, exit_code,
        signal, stopped (ended after SIGTERM, whatever its code), volume_full, or the cause that the
        last lines of the output tell (see `diagnosis.py`).
    rescue (exit 0, or 1 when something is still on the volume): uploaded, not_uploaded.
"""
