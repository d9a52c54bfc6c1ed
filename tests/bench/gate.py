"""Lets real pods write when a measurement says so, and counts who reads them.

`python -m tests.bench.gate ADDRESS PORT FORWARD_PORT HOST API_PORT` passes connections to FORWARD_PORT on to an API
server: each log stream of the portal is a connection of its own. Its control is that of `fakelogs`
(`/bench/open?lines=N[&per_s=R][&loud=K]`, `close`, `stats`); pods ask `/share/NUMBER`, and are answered with
their work as soon as there is one.
"""

import asyncio
import sys
from dataclasses import asdict

from aiohttp import web

from tests.bench.fakelogs import Gate, Stats, Work
from tests.bench.forward import Forward, forwarding


class Control:
    """What a measurement asks, and what pods do."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._gate = Gate()

    async def bench(self, request: web.Request) -> web.Response:
        what, query = request.match_info["what"], request.query
        if what == "open":
            self._gate.work = Work(
                int(query["lines"]), float(query.get("per_s", "0")), int(query.get("loud", "1"))
            )
            self._gate.opened.set()
        elif what == "close":
            self._gate = Gate()
        made, now, peak = self._forward.made, self._forward.open, self._forward.peak
        return web.json_response(asdict(Stats(requests=made, follows=made, open=now, peak=peak)))

    async def share(self, request: web.Request) -> web.Response:
        gate = self._gate
        await gate.opened.wait()
        return web.json_response(asdict(gate.work.of(f"pod-{request.match_info['number']}")))


async def main(address: str, port: int, forward_port: int, host: str, api_port: int) -> None:
    async with forwarding(host, api_port, forward_port) as forward:
        control = Control(forward)
        app = web.Application()
        app.router.add_get("/bench/{what}", control.bench)
        app.router.add_get("/share/{number}", control.share)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, address, port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    address, port, forward_port, host, api_port = sys.argv[1:]
    asyncio.run(main(address, int(port), int(forward_port), host, int(api_port)))
