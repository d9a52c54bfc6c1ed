"""Programs that run inside the pods of a training; they import nothing else of Homeport.

`fetch.py` (init container, Homeport's image) brings the code in, `runner.py` (the user's container,
any Python from 3.6 on, copied there alone) runs the program and ships its log and artifacts,
`rescue.py` (Homeport's image) ships what a runner left behind. All three end with a
termination message (`protocol/termination.py`). `prepare.py` and `gate.py` (Homeport's image) stand
before and beside a notebook or TensorBoard.

Manifests that are stored name `fetch.py`, `rescue.py`, `prepare.py` and `gate.py` by their paths:
these stay. The other modules are imported by them, or packed into one file with the protocol.
"""
