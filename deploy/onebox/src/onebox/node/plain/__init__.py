"""Pods without namespaces, for plain containers: a kernel filter hands their calls to us.

What a pod gets elsewhere from the kernel (own address, own files, own name) it gets here from a
program that answers its system calls: `seccomp` user notification. A shim for programs that mean
no harm, not a boundary. `holder` is the counterpart of `onebox.node.holder`, with the same
requests; nothing else of the node half knows which of the two runs.
"""
