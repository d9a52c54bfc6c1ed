"""The words of `homeport submit`: a flag for each field of the submit body."""

from __future__ import annotations

from .body import duration_s
from .words import Commands, output_option, whole


def add_submit(commands: Commands) -> None:
    """The command `submit`."""
    submit = commands.add(
        "submit",
        "submit:submit",
        "submit a training",
        usage="homeport submit [PATH] [options] [-- COMMAND ...]",
        description="Packs PATH (a folder, an archive or one file), sends it unless the portal has it, and\n"
        "submits a training. What .gitignore and .homeportignore name is not sent.",
        epilog="For example:\n"
        "  homeport submit . --image tensorflow/tensorflow:2.21.0 --gpu 1 -- python train.py\n"
        "  homeport submit -f job.yaml --follow\n"
        "  homeport submit src --workers 2 --ps 1 --cluster-flags true -- python ps.py\n",
    )
    submit.add_argument(
        "path", nargs="?", metavar="PATH", help="code: a folder, an archive, a file"
    )
    submit.add_argument(
        "-f", "--file", metavar="FILE", help="fields of the training in YAML or JSON; - is stdin"
    )
    what = submit.add_argument_group("what runs")
    what.add_argument("--name", help="name of the training (the folder's)")
    what.add_argument("--image", help="container image")
    what.add_argument("--topology", help="single or tf-ps (tf-ps with --ps)")
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable; NAME alone takes yours",
    )
    what.add_argument(
        "--env-file", action="append", default=[], metavar="FILE", help="NAME=VALUE lines"
    )
    what.add_argument(
        "--cluster-flags",
        metavar="true|NAMES",
        help="append --ps_hosts and so on; or which of them",
    )
    what.add_argument("--source-url", metavar="URL", help="code from an address instead of PATH")
    what.add_argument("--sha256", metavar="HEX", help="what that code must be")
    what.add_argument("--source-path", metavar="/data/..", help="code from the data volume")
    what.add_argument("--bundle", metavar="ID", help="code that was sent before")
    much = submit.add_argument_group("how much")
    much.add_argument("--workers", type=whole(0, 100000), metavar="N", help="workers (1)")
    much.add_argument("--cpu", help="CPUs of each worker (1), also as 500m")
    much.add_argument("--memory", help="memory of each worker (1Gi)")
    much.add_argument("--gpu", type=whole(0, 100000), metavar="N", help="GPUs of each worker (0)")
    much.add_argument("--ps", type=whole(0, 100000), metavar="N", help="parameter servers")
    much.add_argument("--ps-cpu", metavar="CPU", help="the same for each parameter server")
    much.add_argument("--ps-memory", metavar="MEMORY")
    much.add_argument("--ps-gpu", type=whole(0, 100000), metavar="N")
    much.add_argument("--shm", metavar="SIZE", help="size of /dev/shm")
    rules = submit.add_argument_group("rules")
    rules.add_argument("--success-policy", metavar="RULE", help="worker0 or all")
    rules.add_argument("--priority", help="normal")
    rules.add_argument(
        "--retries", type=whole(0, 100000), metavar="N", help="tries after a failure"
    )
    rules.add_argument(
        "--deadline", type=duration_s, metavar="TIME", help="at most so long: 90m, 2d"
    )
    rules.add_argument(
        "--starting-deadline", type=duration_s, metavar="TIME", help="back to the queue after (5m)"
    )
    rules.add_argument("--clean-policy", metavar="RULE", help="pods at the end: running, all, none")
    rules.add_argument(
        "--ttl", type=duration_s, metavar="TIME", help="cleaned up so long after (1d)"
    )
    rules.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="any field by its name in REST: replicas.worker.cpu=2",
    )
    then = submit.add_argument_group("and then")
    then.add_argument(
        "--dry-run", action="store_true", help="only show manifests and whether it fits"
    )
    then.add_argument("--list-files", action="store_true", help="only list what would be sent")
    then.add_argument("-w", "--wait", action="store_true", help="wait; end with its exit code")
    then.add_argument("--follow", action="store_true", help="show its log, too")
    output_option(submit)
