"""Which queued workloads start now, which `low` one is stopped for them, and what is kept free until when.

`decision.decide` is the whole: plain integers in, a `Decided` out. It reads no clock, row or cluster,
so the reconciler, the estimates and the simulated week run the same code. Its parts, from below:

- `state`: what goes in and what comes out,
- `order`: who is asked first,
- `room`: the nodes' room in arrays, pools as groups of nodes, packing and placement,
- `keeping`: reservations with their times, and which `low` workloads must go,
- `decision`: one look at the queue.

How it replaces `rules.admission` and `first_come`:

1. `first_come.decide` (a queue for each namespace) gives way to `decision.decide`. The engine builds a
   `QueueState` from `read_queue` and `read_capacity`; `Amount` becomes a `Size` at that border alone.
2. `admission.pack` and `admission.reserve` give way to `room`. `admission.node_capacity` stays the one
   function that says what a node takes; it gains the pool.
3. `admission.fit` stays for the form (can this ever fit?), and makes the sentences of `later` from a
   `Why`, on the page and not at each look: a look compares codes and resources, not texts.
4. Admission stays one transaction: what `Decided` names is written there, each row looked at again.
   Reservations and claims are rows of the same transaction.

Until the engine is moved, the names below are those of `first_come`.
"""

from jobs.rules.queue.first_come import Decision, Queued, QuotaHeadroom, backoff_s, decide

__all__ = ["Decision", "Queued", "QuotaHeadroom", "backoff_s", "decide"]
