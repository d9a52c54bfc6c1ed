# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Runs one replica of a training: starts the program, keeps and ships its output, reports its end.

In the user's container this is one self-contained file: `fetch.py` packs this module and the
siblings that it imports into a zip archive, which Python runs like a script. All of them are
limited to the standard library and the syntax of Python 3.6.

What it does, in order: waits until every peer's name resolves; starts the program in a session of
its own with the placeholders, flags and variables that it was promised; copies the program's output
byte for byte to its own stdout and to segment files on the log volume; ships closed segments to the
portal in the background; forwards SIGTERM once; after the program's end ships the rest and the
artifacts, and writes how it ended to the volume and to the termination message.

Threads: the main thread reads the program's output and writes segments; one writes to stdout, one
ships, one reaps children, one samples what the pod uses. Whatever the portal or the volume does, the program goes on.
"""

import contextlib
import errno
import json
import os
import select
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from jobs.pod.artifacts import Artifacts, list_artifacts, ship_artifacts
from jobs.pod.checkpoints import told_checkpoint
from jobs.pod.diagnosis import diagnose
from jobs.pod.errors import PortalError
from jobs.pod.files import (
    Config,
    MountWatch,
    grace_of,
    keep_room,
    kill_after_s,
    mark_uploaded,
    read_context,
    read_paths,
    remove,
    write_in_room,
    write_message,
)
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.program import (
    PIPE_BYTES,
    Ending,
    Live,
    Program,
    ending_of,
    whole_environment,
)
from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import notice
from jobs.pod.protocol.placeholders import OLDER_ENVIRONMENT, ReplicaContext, final_command
from jobs.pod.protocol.termination import TerminationMessage
from jobs.pod.redaction import Redaction, secret_values
from jobs.pod.sampling import Sampler
from jobs.pod.scripts import CommandScripts, unstartable
from jobs.pod.segments import (
    READ_BYTES,
    attempt_folders,
    ends_line,
    kept_segments,
    number_in,
    read_exits,
)
from jobs.pod.shipping import Shipper, ship_kept
from jobs.pod.startup import wait_for_needs
from jobs.pod.tail import OutputTail
from jobs.pod.volume import LogVolume, is_full

# Where the store is full: it stays so until somebody makes room, and this pod holds the program's GPUs
# meanwhile. A rescue pod brings the rest from the volume.
FULL_RETRY_PART = 0.1
LIVE_WAIT_S = 3.0  # for a stdout that nobody reads, once the program has ended
AFTER_END_BYTES = 4 * PIPE_BYTES
LOOK_S = 0.5  # how often it is looked whether anything has to be done beside copying
REST_FIRST_S = (
    0.01  # ... first after the end of a program that others outlive; then more and more seldom
)


class Runner:
    """One replica from start to end."""

    def __init__(
        self,
        config: Config,
        context: ReplicaContext,
        portal: PortalClient,
        message_path: str,
        secrets: str,
    ) -> None:
        """
        Args:
            secrets: the folder that those are below which the program is given as files.
        """
        self._config = config
        self._context = context
        self._portal = portal
        self._message_path = message_path
        self._grace_s = grace_of(config)
        # Role -> what runs in its replicas instead of the command; absent in what older versions wrote.
        self._programs: Dict[str, str] = config.get("programs") or {}
        retry_s = float(config.get("retry_s") or 600)
        self._budget = RetryBudget(retry_s, retry_s * FULL_RETRY_PART)
        self._job_path = "jobs/" + config["id"] + "/"
        self._replica_path = (
            f"{self._job_path}replicas/{context.role}/{context.task_index}/{context.attempt}/"
        )
        self._shipper = Shipper(portal, self._replica_path, context.pod_uid, self._budget)
        self._archive = LogVolume(context.state_folder, config["limits"], self._shipper)
        self._live = Live()
        self._sampler = Sampler(
            lambda body: portal.post(self._replica_path + "usage/", body),
            os.getpid(),
            {"data": context.data_dir, "log": context.log_dir},
        )
        self._mounts = MountWatch({"log": context.log_dir, "data": context.data_dir}, self._on_gone)
        self._gone = ""  # what is told of a volume that is
        self._program: Optional[Program] = None
        self._asked_at: Optional[float] = None
        self._ended_at: Optional[float] = None  # by us, for want of a volume
        self._was_killed = False
        self._at_line_start = True
        self._told_problem = False
        self._blocked_until = float("inf")
        self._tail = OutputTail()  # of what the program wrote
        self._command: List[str] = []
        self._env: Dict[str, str] = {}
        self._secrets = secrets

    # Called between any two lines of the main thread: writes attributes, takes no lock.
    def on_signal(self, number: int, _frame: Any) -> None:
        if self._asked_at is not None:
            return
        self._asked_at = time.monotonic()
        self._budget.hard_deadline = self._asked_at + self._grace_s - min(5, self._grace_s / 10)
        if self._program is not None:
            self._program.ask(number)

    # Called by another thread; the main one does the rest.
    def _on_gone(self, words: str) -> None:
        self._gone = words

    def say(self, text: str) -> None:
        """A line of ours in the log; never in the middle of one of the program's."""
        start = "" if self._at_line_start else "\n"
        self._emit((start + notice(text)).encode("utf-8", "replace"))

    def _emit(self, data: bytes) -> None:
        self._archive.write(data)
        if self._archive.problem is not None and not self._told_problem:
            # Between two lines of the program; it may take a while until there is such a place.
            at = 0 if self._at_line_start else data.rfind(b"\n") + 1
            if at or self._at_line_start:
                self._told_problem = True
                line = notice(self._archive.problem[1]).encode("utf-8", "replace")
                data = data[:at] + line + data[at:]
        self._at_line_start = data.endswith(b"\n")
        self._live.put(data, self._may_block)

    def _may_block(self) -> bool:
        """Whether a stdout that nobody reads may hold us up: not after the program's end."""
        if self._program is not None and self._program.ended.is_set():
            self._blocked_until = min(self._blocked_until, time.monotonic() + LIVE_WAIT_S)
        return time.monotonic() < self._blocked_until

    def run(self) -> int:
        """The exit code."""
        self._prepare()
        self._shipper.start()
        self._live.start()
        ending = self._run_program()
        is_uploaded, text = self._finish(ending)
        self._write_message(ending._replace(text=text), is_uploaded)
        self._live.finish(LIVE_WAIT_S if self._may_block() else 0)
        return ending.exit_code

    def _prepare(self) -> None:
        context = self._context
        folders = attempt_folders(context.state_parent, context.attempt)
        segments, last_number, end = kept_segments(folders)
        exits = read_exits(folders)
        # What they could not keep has its place in the log as well.
        noted_end = end
        for fields in exits:
            noted_end = max(noted_end, int(number_in(fields, "end_byte")))
        try:
            os.makedirs(context.state_folder, exist_ok=True)
            # A container that starts again in the same pod has not ended any more.
            remove(os.path.join(context.state_folder, "uploaded"))
            keep_room(self._exit_path, json.dumps({"end_byte": noted_end}) if noted_end else "")
            os.makedirs(context.artifacts_dir, exist_ok=True)
        except OSError:
            pass  # the first segment fails the same way and says so
        self._archive.resume(segments, last_number, noted_end)
        if last_number or noted_end:
            if not ends_line(segments) and end == noted_end:
                # A segment of its own, as it ends what a container before this one printed.
                self._archive.write(b"\n")
                self._archive.close()
            self._shipper.run_start = self._archive.position
            lost = f"; {noted_end - end} bytes before are not kept" if noted_end > end else ""
            if lost and exits[-1].get("reason") == codes.VOLUME_FULL:
                lost += ", as the log volume was full"
            self.say(f"{context.name} was started again (pod {context.pod_uid[:8]}){lost}")

    def _run_program(self) -> Ending:
        ending, self._context = wait_for_needs(
            self._config,
            self._context,
            self._portal,
            self.say,
            lambda: self._asked_at is not None,
            _here(),
        )
        if ending is not None:
            return ending
        context, config = self._context, self._config
        words = config.get("commands", {}).get(context.role, config["command"])
        command = self._our_command() or final_command(
            words, config.get("cluster_flags") or (), context
        )
        of_role = config.get("environment", {}).get(context.role, OLDER_ENVIRONMENT)
        env = whole_environment(config.get("env") or {}, of_role, context, dict(os.environ))
        self._command = command
        self._env = env
        try:
            self._program = Program(command, env)
        except (OSError, ValueError) as error:
            refused = error if isinstance(error, OSError) else OSError(errno.EINVAL, str(error))
            ending = unstartable(command[0], refused, env)
            self.say(ending.text)
            return ending
        if self._asked_at is not None:  # asked between the check above and the start
            self._program.ask(signal.SIGTERM)
        with contextlib.suppress(RuntimeError):  # the pod's limit of processes
            self._sampler.start()
            self._mounts.start()
        self._tee(self._program)
        status = self._program.status
        assert status is not None
        was_asked = self._asked_at is not None
        ending = ending_of(status, was_asked, self._was_killed, kill_after_s(self._grace_s))
        if self._ended_at is not None and not was_asked:
            code = ending.exit_code or codes.SIGNAL_BASE + signal.SIGTERM
            return Ending(code, codes.VOLUME_LOST, self._gone)
        return ending if was_asked else self._explained(self._of_full_volume(ending))

    def _our_command(self) -> List[str]:
        """Of a role that runs a program of ours; empty for the others."""
        context = self._context
        program = self._programs.get(context.role)
        if program == codes.MPI_DAEMON:
            return [sys.executable, os.path.join(_here(), "mpi_launch"), "--daemon"]
        if program == codes.TF_SERVER:
            cluster = {
                role: hosts for role, hosts in context.hosts.items() if role in self._programs
            }
            words = [context.role, str(context.task_index), json.dumps(cluster)]
            if not context.hosts.keys() - self._programs.keys():  # no role has a command
                words.append("notebook")
            return [sys.executable, os.path.join(_here(), "tf_server.py"), *words]
        return []

    def _explained(self, ending: Ending) -> Ending:
        """With the cause that the program's last lines tell; the same ending without one."""
        if ending.reason not in {codes.FAILED, codes.KILLED}:
            return ending
        is_server = self._programs.get(self._context.role) == codes.TF_SERVER
        if is_server and ending.exit_code == codes.EXIT_NO_PROGRAM:
            return ending._replace(reason=codes.NO_TENSORFLOW, text="the image has no TensorFlow")
        values = secret_values(self._env, self._config.get("secret_env") or (), self._secrets)
        found = diagnose(
            self._tail,
            ending.exit_code,
            redaction=Redaction([*values, self._portal.token]),
            command=self._command,
            scripts=CommandScripts(self._command),
            slots=self._config.get("slots", 0) * len(self._context.hosts.get("worker", ())),
        )
        if found is None:
            return ending
        if found.code == codes.FAILED:
            return ending._replace(last_words=found.detail)
        return Ending(ending.exit_code, found.code, found.detail)

    def _of_full_volume(self, ending: Ending) -> Ending:
        """A program that fails on a full volume mostly dies of that; the same ending otherwise."""
        if ending.reason != codes.FAILED:
            return ending
        context = self._context
        for what, folder in (("log", context.log_dir), ("data", context.data_dir)):
            if is_full(folder):
                text = f"{ending.text}; the {what} volume is full ({folder})"
                return Ending(ending.exit_code, codes.VOLUME_FULL, text)
        return ending

    def _tee(self, program: Program) -> None:
        """Copies the output until the program has ended and nothing is left of it."""
        poller = select.poll()
        poller.register(program.output_fd, select.POLLIN)
        is_open = True
        rest_s = REST_FIRST_S
        while not program.ended.is_set() or self._waits_for_rest(program):
            pause_s = LOOK_S
            if program.ended.is_set():
                pause_s, rest_s = rest_s, min(2 * rest_s, LOOK_S)
            # At most that long, and less where it ends or says something.
            if not is_open and program.ended.is_set():
                time.sleep(pause_s)
            elif not is_open:
                program.ended.wait(pause_s)
            elif poller.poll(1000 * pause_s):
                is_open = self._copy(program)
            self._archive.tick()
            self._live.put(b"", self._may_block)  # after a flood what was held back goes out
            self._end_without_volume(program)
            program.ask_readers()
            self._kill_when_late(program)
        program.kill_rest()
        # What is in the pipe still belongs to the log. Something that escaped the kill may hold the
        # pipe open or even write to it, which is not waited for.
        most = self._archive.position + AFTER_END_BYTES
        while is_open and self._archive.position < most and poller.poll(500):
            is_open = self._copy(program)
        program.kill_rest()
        os.close(program.output_fd)

    def _copy(self, program: Program) -> bool:
        """Copies what there is; False at the end of the output."""
        data = os.read(program.output_fd, READ_BYTES)
        if data:
            self._tail.feed(data)
            self._emit(data)
        return bool(data)

    def _end_without_volume(self, program: Program) -> None:
        """It would go on with nothing that it can read or keep; in another pod the volume may be there."""
        if self._gone and self._ended_at is None and self._asked_at is None:
            self._ended_at = time.monotonic()
            self.say(f"{self._gone}; the program is ended")
            program.ask(signal.SIGTERM)

    def _waits_for_rest(self, program: Program) -> bool:
        """Whether something that was asked to end is still at work, behind the program that started it.

        A shell ends at SIGTERM and leaves what it runs to save by itself. Unasked there is nothing to wait for.
        """
        is_asked = self._asked_at is not None or self._ended_at is not None
        return is_asked and not self._was_killed and program.has_rest()

    def _kill_when_late(self, program: Program) -> None:
        asked_at = self._ended_at if self._asked_at is None else self._asked_at
        if asked_at is None or self._was_killed:
            return
        if time.monotonic() - asked_at > kill_after_s(self._grace_s):
            self._was_killed = True
            program.signal_group(signal.SIGKILL)

    def _finish(self, ending: Ending) -> Tuple[bool, str]:
        """Ships all that is left; whether all arrived, and the sentence for the message."""
        self._budget.ending_at = time.monotonic()
        # Told in advance: if we are killed while shipping, this is what is known of the end.
        self._write_message(ending, False)
        found = list_artifacts(self._context, self._config)
        if found.skipped_count:
            self.say(
                f"{found.skipped_count} files ({found.skipped_bytes} bytes) stay on the log volume "
                "only: they are more than is kept, or their names cannot be kept"
            )
        self._archive.close()
        self._write_exit(ending)
        problem: Optional[str] = None
        try:
            is_complete = self._shipper.finish()
            problem = self._shipper.failure
            if not self._shipper.is_refused:
                if is_complete:  # where shipping was given up no time is left
                    self._sampler.finish()
                self._ship_artifacts(found)
                if is_complete:
                    self._report(ending)
        except PortalError as error:
            problem = None if error.is_final else problem or str(error)
        if problem is None:
            return True, ending.text
        text = f"what was not shipped is on the log volume in {self._context.own_folder}: {problem}"
        self._live_line(text)
        return False, f"{ending.text}; {text}"

    def _ship_artifacts(self, found: Artifacts) -> None:
        for sentence in ship_artifacts(
            self._portal, self._job_path, self._context, found, self._budget
        ):
            self._live_line(sentence)

    def _live_line(self, text: str) -> None:
        """A line for who still watches; the archive is closed by now."""
        self._live.put(notice(text).encode("utf-8", "replace"), self._may_block)

    def _report(self, ending: Ending) -> None:
        body = {
            "exit_code": ending.exit_code,
            "reason": self._reason(ending),
            "skipped_bytes": self._archive.skipped_bytes + self._shipper.refused_bytes,
            "by_rescue": False,
            "pod_uid": self._context.pod_uid,
            **told_checkpoint(self._context, self._budget),
        }
        path = self._replica_path + "done/"
        log = {"end_byte": self._archive.position, "last_number": self._archive.last_number}
        answer = self._budget.keep_trying(lambda: self._portal.post(path, {**body, "log": log}))
        if answer.get("lacks"):
            self._bring_again(answer["lacks"])
            self._budget.keep_trying(lambda: self._portal.post(path, body))
        mark_uploaded(attempt_folders(self._context.state_parent, self._context.attempt))

    def _bring_again(self, lacks: List[List[int]]) -> None:
        """Segments that the portal had and has no more, by first and last number: its database was restored."""
        context = self._context
        segments, _, _ = kept_segments(attempt_folders(context.state_parent, context.attempt))
        wanted = [s for s in segments if any(first <= s.number <= last for first, last in lacks)]
        ship_kept(
            self._portal, self._replica_path, wanted, context.pod_uid, self._budget, self._live_line
        )

    @property
    def _exit_path(self) -> str:
        return os.path.join(self._context.state_folder, "exit.json")

    def _reason(self, ending: Ending) -> str:
        """What the archive is told: why a part of the log is missing goes before how the program ended."""
        return self._archive.problem[0] if self._archive.problem is not None else ending.reason

    def _write_exit(self, ending: Ending) -> None:
        fields = {
            "exit_code": ending.exit_code,
            "reason": self._reason(ending),
            "text": ending.text,
            "end_byte": self._archive.position,
            "skipped_bytes": self._archive.skipped_bytes,
            "ended_at": time.time(),
        }
        try:
            write_in_room(self._exit_path, json.dumps(fields))
        except OSError as error:
            self._live_line(f"the exit code cannot be written to the log volume: {error.strerror}")

    def _write_message(self, ending: Ending, is_uploaded: bool) -> None:
        archive = self._archive.problem[0] if self._archive.problem is not None else ""
        message = TerminationMessage(
            ending.reason, ending.text, ending.exit_code, is_uploaded, archive, ending.last_words
        )
        write_message(self._message_path, message)


def _here() -> str:
    """The folder of this program and of those packed beside it."""
    return os.path.dirname(os.path.abspath(sys.argv[0]))


def main(arguments: List[str]) -> int:
    """The exit code of this process."""
    paths = read_paths(arguments)
    try:
        config = paths.read_config()
        context = read_context(config, dict(os.environ))
        portal = PortalClient(os.environ["HOMEPORT_URL"], paths.read_token())
        runner = Runner(config, context, portal, paths.message, paths.secrets)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"the pod's own configuration cannot be used: {type(error).__name__} {error}"
        sys.stderr.write(notice(text))
        message = TerminationMessage(
            codes.CONFIGURATION_BROKEN, text, codes.EXIT_CONFIGURATION, uploaded=False
        )
        write_message(paths.message, message)
        return codes.EXIT_CONFIGURATION
    signal.signal(signal.SIGTERM, runner.on_signal)
    signal.signal(signal.SIGINT, runner.on_signal)
    return runner.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
