"""What Homeport and the kubectl of its users need from a cluster, tried on onebox and on upstream.

    python -m pytest tests/contract           # on a onebox that it starts, or on CONTRACT_KUBECONFIG
    python -m tests.contract.record [NAME]    # play scripts on upstream and write their transcripts
    python -m tests.contract.report           # compare the last run on each side

A behaviour is a test, or a script of `scripts/`: a sequence of requests that upstream has answered
once (`transcripts/`), and that is played anew on each cluster and compared word by word. What chance
chooses (uids, times, versions, generated names, addresses, ports) is replaced by placeholders.
Where onebox may differ stands in `exceptions.toml`, with what a user sees of it; anything else that
differs is a failure, and so is an exception that nothing needs any more.

Scripts play the kubelet of a Node that nobody runs; only what is marked `needs_pods` needs real ones.
Under real kubelets it is run by tests/nodes/test_contract.py.
"""
