"""Every setting that an operator can give by environment variable, in one table.

`docs/settings.md` lists the same rows, and a test holds the two together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portal.environment.parsers import (
    parse_accepted,
    parse_bool,
    parse_count,
    parse_days,
    parse_labels,
    parse_list,
    parse_log_format,
    parse_number,
    parse_optional_bool,
    parse_port,
    parse_synchronous,
)


@dataclass(frozen=True)
class Setting:
    """One row: the variable, its default as text, how it is read, and what it means."""

    name: str
    default: str
    meaning: str
    parse: Callable[[str], Any] = str


SETTINGS: tuple[Setting, ...] = (
    Setting("HOMEPORT_HOME", "./var", "folder for the database, the object store and secrets"),
    Setting(
        "STATIC_ROOT",
        "",
        "folder of the collected static files and the command line's package; `static` in "
        "HOMEPORT_HOME when empty",
    ),
    Setting(
        "TLS_CERT_FILE",
        "",
        "certificate (PEM) of PUBLIC_URL, with which the web server speaks HTTPS itself; renewed files are "
        "read without a restart; plain HTTP, for a load balancer in front, when empty",
    ),
    Setting("TLS_KEY_FILE", "", "private key (PEM) of that certificate"),
    Setting("PORT", "8000", "port of the web server on this machine", int),
    Setting("LISTEN", "127.0.0.1", "address that the web server listens on"),
    Setting(
        "POD_PORT",
        "",
        "port of the pods' door, which serves `/internal/` and nothing else; PORT + 1 when empty",
        parse_port,
    ),
    Setting(
        "POD_LISTEN",
        "",
        "address that the pods' door listens on, by plain HTTP; LISTEN when empty",
    ),
    Setting(
        "PROBE_PORT",
        "",
        "port on which `serve --no-web` answers /livez, /readyz and /status, by plain HTTP; PORT + 2 "
        "when empty, 0: none",
        parse_port,
    ),
    Setting(
        "METRICS_PORT",
        "",
        "port on which every `serve` answers /metrics to Prometheus, and /livez, /readyz and /status, by "
        "plain HTTP; none when empty",
        parse_port,
    ),
    Setting(
        "DRAIN_S",
        "5",
        "seconds that requests in progress are given when the portal is asked to end; /readyz is "
        "503 meanwhile",
        float,
    ),
    Setting(
        "HOMEPORT_SECRET_KEY",
        "",
        "signing key; generated into HOMEPORT_HOME (0600) when empty, but never in a pod of Kubernetes",
    ),
    Setting(
        "HOMEPORT_SECRET_KEY_FALLBACKS",
        "",
        "signing keys of before, the latest first: what they signed is still good",
        parse_list,
    ),
    Setting(
        "PUBLIC_URL",
        "",
        "scheme, host and port under which browsers reach the portal, such as "
        "https://homeport.lab.example",
    ),
    Setting(
        "ALLOWED_HOSTS",
        "",
        "host names under which browsers reach the portal, besides that of PUBLIC_URL; localhost "
        "when both are empty",
        parse_list,
    ),
    Setting(
        "TRUSTED_PROXIES",
        "",
        "addresses or networks of load balancers whose X-Forwarded-For says where people come from, and whose "
        "X-Forwarded-Proto says how",
        parse_list,
    ),
    Setting(
        "HTTPS",
        "",
        "the portal is served by HTTPS: secure cookies and HSTS; as PUBLIC_URL says when empty",
        parse_optional_bool,
    ),
    Setting(
        "ACCEPT_INSECURE",
        "",
        "what `serve` starts with although it is not safe: plain-http, short-key, no-redis",
        parse_accepted,
    ),
    Setting("DEBUG", "no", "error pages with code; for development only", parse_bool),
    Setting(
        "LOG_FORMAT",
        "line",
        "`line`, or `json`: one object a line, with the ids of request, person, namespace and training "
        "where they are known",
        parse_log_format,
    ),
    Setting(
        "DATABASE_URL",
        "",
        "database; with several servers postgres://me@one:5432,two:5432/homeport"
        "?target_session_attrs=read-write; SQLite in HOMEPORT_HOME when empty",
    ),
    Setting(
        "DATABASE_SYNCHRONOUS",
        "full",
        "SQLite only: `full` answers when a write is on disk; `normal` is faster and loses the last "
        "writes when the machine loses its power",
        parse_synchronous,
    ),
    Setting(
        "WEB_THREADS",
        "20",
        "requests that one web process works on at once; each keeps a thread and a database "
        "connection, and others wait",
        parse_count,
    ),
    Setting(
        "POD_THREADS",
        "8",
        "the same of requests of pods, which have threads of their own",
        parse_count,
    ),
    Setting(
        "WEB_WAIT_S",
        "60",
        "seconds that a request waits for its turn before it is answered 503; less than a load "
        "balancer in front waits",
        parse_count,
    ),
    Setting("REDIS_URL", "", "channel layer of several web processes; in memory when empty"),
    Setting("S3_BUCKET", "", "bucket of the object store; a folder in HOMEPORT_HOME when empty"),
    Setting("S3_ENDPOINT", "", "URL of an S3 server other than Amazon's"),
    Setting(
        "S3_POD_ENDPOINT",
        "",
        "URL under which pods reach the S3 server, when it is not S3_ENDPOINT",
    ),
    Setting("S3_REGION", "us-east-1", "region of the bucket"),
    Setting("HOMEPORT_KUBECONFIG", "", "kubeconfig of the cluster; in-cluster account when empty"),
    Setting(
        "PURGE_KUBECONFIG",
        "",
        "kubeconfig of the account that removes purged namespaces and volumes; the same account as "
        "for everything else when empty",
    ),
    Setting(
        "WEB_KUBECONFIG",
        "",
        "kubeconfig of the account with which the web server reads logs; the same account as for "
        "everything else when empty",
    ),
    Setting(
        "POD_PORTAL_URL",
        "",
        "URL under which pods reach the portal; must be set, but for the built-in cluster",
    ),
    Setting(
        "POD_PORTAL_SELECTOR",
        "",
        "labels (`key=value,...`) of the portal's pods, where POD_PORTAL_URL names a Service: "
        "people's pods reach these alone, at POD_PORT; its whole namespace when empty",
        parse_labels,
    ),
    Setting("STORAGE_CLASS", "glusterfs", "StorageClass of data and log volumes"),
    Setting(
        "NODE_SELECTOR",
        "",
        "labels (`key=value,...`) of the nodes that people's pods run on, such as those where the "
        "shared file system is mounted; any node when empty",
        parse_labels,
    ),
    Setting("NODE_HOST", "127.0.0.1", "host name of a node, for links to NodePorts"),
    Setting(
        "GATE_TLS_CERT_FILE",
        "",
        "certificate (PEM) of NODE_HOST, with which notebooks and TensorBoards answer by HTTPS",
    ),
    Setting("GATE_TLS_KEY_FILE", "", "private key (PEM) of that certificate"),
    Setting(
        "NODE_CIDRS",
        "",
        "addresses of nodes, for network policies; with an overlay network those of its devices, too",
        parse_list,
    ),
    Setting("CLIENT_CIDRS", "", "addresses of browsers, for network policies", parse_list),
    Setting("DOCTOR_USER", "", "person as whom doctor works in the cluster; empty: there is none"),
    Setting(
        "CLUSTER_CIDRS",
        "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
        "networks that user pods may not reach",
        parse_list,
    ),
    Setting(
        "POD_EGRESS_CIDRS",
        "",
        "networks of CLUSTER_CIDRS that user pods may reach all the same: of an object store, git server or "
        "package index at private addresses",
        parse_list,
    ),
    Setting(
        "NETWORK_CHECK",
        "yes",
        "try with pods of Homeport's own, at the start and daily, whether namespaces are kept apart",
        parse_bool,
    ),
    Setting(
        "PORTAL_IMAGE",
        "",
        "image of Homeport's own programs in people's pods; `portal_image` of the catalog when empty",
    ),
    Setting(
        "PORTAL_PULL_SECRET_FILE",
        "",
        "file with logins of registries (`.dockerconfigjson`), by which all pods of people pull their images; "
        "each namespace gets a Secret of it",
    ),
    Setting(
        "POD_AUTHORITIES_FILE",
        "",
        "certificate authorities (PEM), public ones too, that Homeport's programs in people's pods trust and "
        "HOMEPORT_AUTHORITIES names to people's; each namespace gets a ConfigMap of it",
    ),
    Setting(
        "EXPORT_IMAGE",
        "",
        "image that fetches the code in exported manifests: Homeport's own, or a copy of it that another "
        "cluster can pull; PORTAL_IMAGE when empty",
    ),
    Setting("CATALOG", "", "YAML file with images, sizes, quotas; the built-in one when empty"),
    Setting("BUNDLE_MAX_BYTES", str(512 * 1024**2), "largest upload of code, bytes", int),
    Setting(
        "DISK_RESERVE_BYTES",
        str(1024**3),
        "below so much free disk under HOMEPORT_HOME, bytes, uploads, archives and new trainings "
        "are refused; 0: never",
        parse_number,
    ),
    Setting(
        "LOG_ARCHIVE_MAX_BYTES",
        str(2 * 1024**3),
        "largest archived log of one replica, bytes; beyond it the middle is dropped and counted",
        parse_number,
    ),
    Setting(
        "ARTIFACTS_MAX_BYTES",
        str(5 * 1024**3),
        "most bytes of artifacts that are kept per training; the rest stays on the log volume",
        parse_number,
    ),
    Setting(
        "STORE_MAX_BYTES_PER_TENANT",
        str(200 * 1024**3),
        "most bytes of uploads, archived logs and artifacts that one namespace keeps; 0: no limit",
        parse_number,
    ),
    Setting(
        "BUNDLE_KEEP_DAYS",
        "30",
        "days after which an upload that no training uses is removed; 0: never",
        parse_number,
    ),
    Setting(
        "RETENTION_DAYS",
        "0",
        "days after their end that trainings are deleted with their logs and files, every night; "
        "0: they are kept",
        parse_days,
    ),
    Setting(
        "LOW_USE_PERCENT",
        "10",
        "what a replica uses less of than this, of its GPUs, CPU or memory, is told its owner and lead; 0: never",
        int,
    ),
    Setting("LOW_USE_MINUTES", "60", "how long that has to last before it is told", parse_number),
    Setting("AUDIT_KEEP_DAYS", "400", "days that the audit trail is kept; 0: for good", int),
    Setting(
        "MAX_UNFINISHED_TRAININGS",
        "500",
        "most trainings of one namespace that are queued, running or suspended",
        parse_number,
    ),
    Setting(
        "MAX_QUEUED",
        "200",
        "most trainings, notebooks and TensorBoards of one namespace in the queue",
        parse_number,
    ),
    Setting(
        "SUBMITS_PER_MINUTE",
        "30",
        "most trainings, notebooks and TensorBoards that one person submits in a minute; as many dry runs",
        parse_number,
    ),
    Setting(
        "WRITES_PER_MINUTE",
        "300",
        "most things that one person submits, uploads or starts in a minute",
        parse_number,
    ),
    Setting("OIDC_ISSUER", "", "OpenID Connect provider for signing in; passwords only when empty"),
    Setting("OIDC_CLIENT_ID", "", "what the provider calls this portal"),
    Setting("OIDC_CLIENT_SECRET", "", "the secret that the provider gave for it"),
    Setting("OIDC_NAME", "single sign-on", "what people call the provider, on the button"),
    Setting("OIDC_SCOPES", "openid profile email", "what the provider is asked for", parse_list),
    Setting("OIDC_GROUPS_CLAIM", "groups", "where the provider says somebody's groups"),
    Setting(
        "OIDC_ALLOWED_GROUP", "", "only this group may sign in by the provider; all when empty"
    ),
    Setting(
        "OIDC_ADMIN_GROUP",
        "",
        "members are admins, others are not, at each sign-in; admins are chosen here when empty",
    ),
    Setting(
        "HOMEPORT_DEMO_PASSWORD",
        "",
        "password of the demo accounts; generated into HOMEPORT_HOME (0600) when empty",
    ),
)
