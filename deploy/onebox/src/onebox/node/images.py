"""Images: a reference that a pod names becomes an environment on this machine.

Nothing is downloaded from a container registry. A reference stands for a requirements file, which is
installed for a Python of its own: built aside and renamed when whole, so that one that is half
done is never used, and mounted read-only into containers, because environments share their files.

Images with the same requirements share an environment; what else an image needs of the machine is
asked for at each start, whoever pulled it.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from onebox.node.environments import MARK, Environments, open_shared
from onebox.node.hostprograms import HostPrograms
from onebox.node.imagefile import (
    SHIPPED,
    Definition,
    DefinitionError,
    load_definitions,
    normalize_reference,
)
from onebox.node.installer import Installer, InstallError
from onebox.node.interpreter import interpreter_mounts, real_interpreter
from onebox.node.spec import ImageEnv, Mount

__all__ = ["ImageEnv", "ImageError", "Images"]

logger = logging.getLogger(__name__)

Say = Callable[[str], None]

# Part of an environment's key: what is made of the same requirements changes with it.
_LAYOUT = "python of its own, with pip"
_MOST_INSTALLATIONS = 2
_MOST_NAMED = 3  # images, in a sentence


class ImageError(Exception):
    """An image could not be had.

    Attributes:
        reason: ErrImagePull or InvalidImageName, as in a container's waiting state.
        message: a sentence.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class _Pull:
    """An installation under way, and those who want to hear of it."""

    def __init__(self) -> None:
        self.listeners: list[Say] = []
        self.last_line = ""
        self.task: asyncio.Task[None] | None = None

    def say(self, line: str) -> None:
        if line != self.last_line:
            self.last_line = line
            for listener in list(self.listeners):
                listener(line)


class Images:
    """The images that this node knows, and those that are installed.

    Args:
        home: the node's home, used by one node at a time; environments lie in
            `home/images/envs`, an operator's definitions in `home/images/*.toml`.
        shared: a folder in which nodes of several homes build what they do not have; one that this
            process may not use is left alone.
    """

    def __init__(self, home: Path, shared: Path | None = None) -> None:
        self._folder = home.resolve() / "images"
        self._own = Environments(self._folder)
        self._new = open_shared(shared) or self._own
        self._programs = HostPrograms(self._folder / "programs")
        self._pulls: dict[str, _Pull] = {}
        self._turns = asyncio.Semaphore(_MOST_INSTALLATIONS)
        self._definitions: dict[str, Definition] = {}
        self._wrong: list[str] = []
        self._seen: list[tuple[str, int]] = []

    def references(self) -> list[str]:
        """Return the references of all known images, as they were written."""
        self._read_definitions()
        return sorted(definition.reference for definition in self._definitions.values())

    def is_present(self, reference: str) -> ImageEnv | None:
        """Return the image if it is installed and has all it needs; never starts an installation."""
        definition = self._definition(reference)
        if definition is None or not self._is_installed(definition) or lacks(definition):
            return None
        return self._image(definition, reference)

    def lacking(self, reference: str) -> str:
        """Return what this machine lacks for an image, as `lacks` says; "": nothing, or unknown."""
        definition = self._definition(reference)
        return "" if definition is None else lacks(definition)

    def all_lacks(self) -> dict[str, str]:
        """Return what this machine lacks for each image that it knows, by full references; "": nothing."""
        self._read_definitions()
        return {full: lacks(one) for full, one in sorted(self._definitions.items())}

    async def ensure(self, reference: str, on_progress: Say) -> ImageEnv:
        """Return the image, installing it first where it is not present.

        However many ask for one image, it is installed once; each of them hears its progress. An
        installation goes on when those who asked for it no longer wait.

        Raises:
            ImageError: unknown reference, a malformed one, or the installation failed.
        """
        definition = self._find(reference)
        while not self._is_installed(definition):
            pull = self._pull(definition)
            pull.listeners.append(on_progress)
            if pull.last_line:
                on_progress(pull.last_line)
            assert pull.task is not None
            try:
                await asyncio.shield(pull.task)
            except asyncio.CancelledError:
                if not pull.task.cancelled():
                    raise  # it is the caller that no longer waits
                text = f'the installation of "{reference}" was stopped with the node'
                raise ImageError("ErrImagePull", text) from None
            finally:
                with contextlib.suppress(ValueError):
                    pull.listeners.remove(on_progress)
        return self._image(definition, reference)

    async def close(self) -> None:
        """Stop installations that are under way; what they leave is removed at the next start."""
        tasks = [pull.task for pull in self._pulls.values() if pull.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _find(self, reference: str) -> Definition:
        full = normalize_reference(reference)
        if full is None:
            text = f'"{reference}" is not an image reference; one looks like "python:3.11-slim"'
            raise ImageError("InvalidImageName", text)
        self._read_definitions()
        definition = self._definitions.get(full)
        if definition is None:
            raise ImageError("ErrImagePull", self._not_found(reference))
        if missing := lacks(definition):
            raise ImageError("ErrImagePull", f"it {missing}")
        return definition

    def _not_found(self, reference: str) -> str:
        """Say what may have been meant, in few words; where definitions lie, the log and README say."""
        known = self.references()
        likely = difflib.get_close_matches(reference, known, _MOST_NAMED, cutoff=0.5)
        if likely:
            text = f"not found. Did you mean {' or '.join(likely)}?"
        else:
            more = len(known) - _MOST_NAMED
            text = f"not found. There are {', '.join(known[:_MOST_NAMED])} and {more} more."
        if self._wrong:
            text += f" Definitions that are wrong are left out: {', '.join(self._wrong)}."
        return text

    def _definition(self, reference: str) -> Definition | None:
        self._read_definitions()
        return self._definitions.get(normalize_reference(reference) or "")

    def _read_definitions(self) -> None:
        """Read the definition files again if one has changed; a wrong one leaves out only itself."""
        files = [SHIPPED, *sorted(self._folder.glob("*.toml"))]
        requirement_files = [*SHIPPED.parent.rglob("*.txt"), *self._folder.glob("*.txt")]
        seen = [(str(p), p.stat().st_mtime_ns) for p in (*files, *requirement_files) if p.exists()]
        if seen == self._seen:
            return
        self._seen, self._wrong, self._definitions = seen, [], {}
        for path in files:
            try:
                self._definitions.update(load_definitions(path))
            except DefinitionError as error:
                logger.warning("images of this file are not available: %s", error)
                self._wrong.append(path.name)

    def _pull(self, definition: Definition) -> _Pull:
        """Return the installation of an image, starting it unless it is under way."""
        key = _environment_key(definition)
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = _Pull()
            work = self._install(definition, key, pull.say)
            pull.task = asyncio.get_running_loop().create_task(work)
            pull.task.add_done_callback(lambda task: self._pull_ended(key, task))
        return pull

    def _pull_ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._pulls[key]
        if not task.cancelled():
            task.exception()  # taken note of, also where nobody waits any more

    async def _install(self, definition: Definition, key: str, say: Say) -> None:
        """Build an environment, or find that another node has built it meanwhile."""
        try:
            async with self._new.building(key):
                if not self._is_installed(definition):
                    async with self._turns:
                        await self._build(definition, key, say)
        except (InstallError, OSError) as error:
            text = f'"{definition.reference}" could not be installed: {self._without_places(error)}'
            raise ImageError("ErrImagePull", text) from error
        say("Installed")

    def _without_places(self, error: Exception) -> str:
        """The words of an error without where this node keeps its files: people read them."""
        text = str(error)
        for place in (self._new.folder, self._own.folder, self._folder.parent):
            text = text.replace(str(place), "…")
        return text

    async def _build(self, definition: Definition, key: str, say: Say) -> None:
        folder, final = self._new.half_built(key), self._new.final(key)
        try:
            if definition.programs is not None:
                _link_programs(folder, definition.programs)
            else:
                installer = Installer(folder, final, self._new.cache)
                await installer.install(definition.requirements, definition.packages, say)
            await asyncio.to_thread(_seal, folder, final, definition)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, True)

    def _is_installed(self, definition: Definition) -> bool:
        key = _environment_key(definition)
        return self._own.has(key) or self._new.has(key)

    def _image(self, definition: Definition, reference: str) -> ImageEnv:
        key = _environment_key(definition)
        folder = (self._own if self._own.has(key) else self._new).final(key)
        mark = json.loads((folder / MARK).read_text())
        own = Mount(source=str(folder), path=str(folder), read_only=True)
        programs = str(self._programs.links())
        of_machine = Mount(source=programs, path=programs, read_only=True)
        env = {"PATH": f"{folder}/bin:{programs}", "LANG": "C.UTF-8"}
        image = ImageEnv(
            reference=reference,
            image_id=f"sha256:{_content_digest(definition)}",
            env={**env, **definition.env},
            mounts=(own, of_machine, *interpreter_mounts(), *definition.mounts),
            size_bytes=mark["size_bytes"],
            working_dir=definition.working_dir,
        )
        if definition.programs is None:
            return image
        return replace(image, env={**image.env, "PATH": f"{folder}/bin"}, mounts=(own,))


def lacks(definition: Definition) -> str:
    """Return what this machine lacks for an image, after its name in a sentence; "": nothing."""
    running = ".".join(map(str, sys.version_info[:3]))
    if definition.python and not f"{running}.".startswith(f"{definition.python}."):
        return f"needs Python {definition.python}; this node runs {running}"
    for needed in definition.host_files:
        if not os.path.exists(needed.path):
            return f"needs what this machine does not have; install it: {needed.install}"
    for mount in definition.mounts:
        if not os.path.exists(mount.source):
            return f"contains a folder of this machine as {mount.path}, and the folder is not there"
    for name in definition.programs or ():
        if _find_program(name) is None:
            return f"consists of programs of this machine, which has no {name}"
    return ""


def _environment_key(definition: Definition) -> str:
    """Return the name of an environment: its requirements, and the Python they are for."""
    parts = [definition.requirements, sys.version, real_interpreter(), _LAYOUT]
    parts.extend(definition.packages)
    if definition.programs is not None:
        parts = ["programs", *definition.programs]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _content_digest(definition: Definition) -> str:
    """Return what identifies an image: its environment, and all else that its definition says."""
    fields = asdict(definition)
    del fields["reference"]
    content = [_environment_key(definition), json.dumps(fields, sort_keys=True)]
    return hashlib.sha256("\0".join(content).encode()).hexdigest()


def _find_program(name: str) -> str | None:
    return shutil.which(name, path="/usr/bin:/bin")


def _link_programs(folder: Path, programs: tuple[str, ...]) -> None:
    (folder / "bin").mkdir(parents=True)
    for name in programs:
        found = _find_program(name)
        if found is None:
            raise InstallError(f"this machine has no program {name}")
        (folder / "bin" / name).symlink_to(found)


def _seal(folder: Path, final: Path, definition: Definition) -> None:
    """Mark the environment as whole and move it to its place."""
    size_bytes = 0
    for parent, _folders, files in os.walk(folder):
        for name in files:
            size_bytes += os.lstat(os.path.join(parent, name)).st_blocks * 512
    mark = {"reference": definition.reference, "size_bytes": size_bytes}
    (folder / MARK).write_text(json.dumps(mark))
    shutil.rmtree(final, ignore_errors=True)  # without a mark, it is not an image
    folder.rename(final)
