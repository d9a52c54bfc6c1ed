"""Live logs: one upstream follow per pod and process, shared by every viewer of it.

From the cluster to a browser: `lines` turns the bytes of a follow into batches of clean lines (`rows`),
`tail` follows one container and keeps the newest megabyte, `hub` shares tails, `sources` shows one
replica to one viewer (live, then from the archive), `viewer` is the bounded queue in front of a
websocket, `consumers` the websocket itself.
"""
