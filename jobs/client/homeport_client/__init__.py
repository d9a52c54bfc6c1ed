"""The command line `homeport`: a client of the REST API, of websockets and of nothing else of ours.

It is installed on laptops, without Django (`pip install ./jobs/client`), so it imports only the
standard library, urllib3, websockets, PyYAML, pathspec, click and rich, and runs on Python 3.9 and
newer.
"""
