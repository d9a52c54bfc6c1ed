"""Which queued workloads start now, which `low` one is stopped for them, and what is kept free until when.

`decision.decide` is the whole: plain integers in, a `Decided` out. It reads no clock, row or cluster,
so the reconciler, the estimates and the simulated week run the same code. Its parts, from below:

- `state`: what goes in and what comes out,
- `order`: who is asked first,
- `room`: the nodes' room in arrays, pools as groups of nodes, packing and placement,
- `keeping`: reservations with their times, and which `low` workloads must go,
- `guards`: images that cannot be pulled, nodes on which trainings die,
- `decision`: one look at the queue,
- `holds`: nodes that an admin holds, in words; `times`: seconds, and times of rows,
- `look`: the same in admission's amounts, with sentences.
- `estimate`: the same on a virtual clock: when each that waits will start, and what that follows from.
"""
