"""Puts the node's parts together and runs them until a signal comes or something breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from onebox.node import gpus
from onebox.node.agent import Agent
from onebox.node.client import ApiError, Client, load_kubeconfig
from onebox.node.context import NodeContext
from onebox.node.egress import egress_env
from onebox.node.events import Recorder
from onebox.node.feed import ServiceFeed
from onebox.node.gpus import Allocator, Inventory
from onebox.node.images import Images
from onebox.node.logaccess import TokenAccess
from onebox.node.logserver import LogServer
from onebox.node.nodestatus import (
    Offer,
    default_cpu_cores,
    machine_disk_bytes,
    machine_memory_bytes,
    resources,
)
from onebox.node.options import NodeOptions
from onebox.node.places import Places
from onebox.node.provisioner import Provisioner
from onebox.node.registration import Registration
from onebox.node.sandbox import Sandbox
from onebox.node.services import Services

log = logging.getLogger(__name__)

FAREWELL_S = 1.0
# Begins each line of the log that says what is weaker here than it could be.
NOTE = "note: "


class NodeFault(Exception):  # noqa: N818 - the end of the program, not an error of a call
    """The node cannot go on; the text is for people."""


@dataclass
class Stop:
    """How the node is asked to end: `asked` first, `hurry` by a second signal."""

    asked: asyncio.Event
    hurry: asyncio.Event

    def signalled(self) -> None:
        """Take a signal."""
        if self.asked.is_set():
            self.hurry.set()
        self.asked.set()


async def run_node(options: NodeOptions) -> None:
    """Run the node until SIGINT or SIGTERM.

    Raises:
        SandboxUnavailable: this machine cannot run pods.
        KubeconfigError: the API cannot be found.
        NodeFault: a part of the node ended by itself.
    """
    stop = Stop(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.signalled)
    options.home.mkdir(parents=True, exist_ok=True)
    options.home.chmod(0o700)
    async with contextlib.AsyncExitStack() as stack:
        clients = Clients.of(options)
        for client in (clients.node, clients.services):
            stack.push_async_callback(client.close)
        inventory, sandbox = await asyncio.gather(
            asyncio.to_thread(gpus.discover, options.gpus), Sandbox.start(options.home)
        )
        stack.push_async_callback(sandbox.close)
        for note in sandbox.notes:
            log.warning("%s%s", NOTE, note)
        await _run_parts(options, clients, (sandbox, inventory), stop)


@dataclass(frozen=True)
class Clients:
    """The node's own access to the API, and that of who follows Services and makes volumes."""

    node: Client
    services: Client

    @classmethod
    def of(cls, options: NodeOptions) -> Clients:
        """Raises KubeconfigError."""
        accesses = [
            load_kubeconfig(path) for path in (options.kubeconfig, options.services_kubeconfig)
        ]
        return cls(*map(Client, accesses))


async def _run_parts(
    options: NodeOptions, clients: Clients, machine: tuple[Sandbox, Inventory], stop: Stop
) -> None:
    sandbox, inventory = machine
    folders = [options.home, options.volumes_folder, *filter(None, [options.images_folder])]
    places = Places(folders)
    recorder = Recorder(clients.node, options.name, places=places)
    services_recorder = Recorder(clients.services, options.name, "onebox", places)
    services = Services(sandbox, forwards=options.forwards, egress=options.egress)
    feed = ServiceFeed(clients.services, services_recorder, services)
    images = Images(options.home, options.images_folder)
    offer = _offer(options, sandbox, inventory)
    context = NodeContext(
        name=options.name,
        home=options.home,
        client=clients.node,
        sandbox=sandbox,
        images=images,
        recorder=recorder,
        gpus=Allocator(inventory),
        allocatable=resources(offer)[1],
        is_root=sandbox.mode == "root",
        services=feed.services,
        pod_environment=pod_environment(options, feed),
    )
    agent = Agent(context)
    access = options.certificates or TokenAccess(read_token(options.token_file))
    log_server = LogServer(access, agent.find_log)
    registration = Registration(
        clients.node, offer, log_port=await log_server.start(), lacks=images.all_lacks
    )
    provisioner = Provisioner(
        clients.services,
        services_recorder,
        options.volumes_folder,
        is_root=sandbox.mode == "root",
        tell_strays=registration.tell_strays,
    )
    await services.start()
    tasks = [
        asyncio.create_task(work)
        for work in (
            recorder.run(),
            services_recorder.run(),
            feed.run(),
            _keep_registered(registration),
            _run_agent(agent, feed),
            provisioner.run(),
            _report_loss(sandbox),
            _say_ready(agent, registration),
        )
    ]
    try:
        await _until_stopped(tasks, stop)
        with contextlib.suppress(ApiError, aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await registration.send_status(is_ready=False)
        await agent.shut_down(options.grace_s, stop.hurry)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await log_server.close()
        await services.close()
        await images.close()


def _offer(options: NodeOptions, sandbox: Sandbox, inventory: Inventory) -> Offer:
    cores = len(os.sched_getaffinity(0))
    return Offer(
        name=options.name,
        cpu_cores=options.cpu_cores or default_cpu_cores(cores),
        real_cores=cores,
        memory_bytes=machine_memory_bytes(),
        disk_bytes=machine_disk_bytes(options.home),
        inventory=inventory,
        mode=sandbox.mode,
        limits=sandbox.limits,
        notes=sandbox.notes,
        is_joined=options.certificates is not None,
    )


def pod_environment(options: NodeOptions, feed: ServiceFeed) -> Callable[[str], dict[str, str]]:
    """Make the function that gives a namespace's pods the variables for the way out."""

    def environment(namespace: str) -> dict[str, str]:
        if not options.egress:
            return {}
        names = [
            service["metadata"]["name"]
            for service in feed.services()
            if service["metadata"]["namespace"] == namespace
        ]
        return egress_env([*names, *(f"{name}.{namespace}" for name in names)])

    return environment


def read_token(path: Path) -> str:
    """Read the log server's token, or make one where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text().strip()


async def _run_agent(agent: Agent, feed: ServiceFeed) -> None:
    # Pods get variables of services: none may start before those are known.
    await feed.synced()
    await agent.watch.run()


async def _keep_registered(registration: Registration) -> None:
    await registration.register()
    await registration.run()


async def _say_ready(agent: Agent, registration: Registration) -> None:
    """Tell whoever started us, by one line, that pods can come."""
    await registration.registered.wait()
    await agent.watch.synced.wait()
    sys.stdout.write("onebox node is ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def _report_loss(sandbox: Sandbox) -> None:
    await sandbox.lost.wait()
    raise NodeFault("the sandbox ended by itself, and every pod with it; start onebox again")


async def _until_stopped(tasks: list[asyncio.Task[None]], stop: Stop) -> None:
    """Wait for a signal; raises NodeFault when one of the tasks ends first."""
    asked = asyncio.create_task(stop.asked.wait())
    done, _ = await asyncio.wait([*tasks, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    for task in done:
        if task is asked:
            continue
        error = task.exception()
        if isinstance(error, NodeFault):
            raise error
        raise NodeFault(f"a part of the node ended by a fault: {error!r}") from error
