"""Django settings of Homeport; everything an operator may change comes from `portal.environment`."""

from pathlib import Path

from django.core.management.utils import get_random_secret_key

from portal import environment, public_address
from portal.database.postgres import address

BASE_DIR = Path(__file__).resolve().parent.parent
HOMEPORT_HOME = environment.home()

SECRET_KEY = environment.secret_key(get_random_secret_key)
SECRET_KEY_FALLBACKS = environment.read("HOMEPORT_SECRET_KEY_FALLBACKS")
DEBUG = environment.read("DEBUG")
PORT = environment.read("PORT")
POD_PORT = environment.pod_port()
LISTEN = environment.read("LISTEN")
ACCEPT_INSECURE = environment.read("ACCEPT_INSECURE")
PUBLIC_URL = environment.read("PUBLIC_URL")
_address = public_address.read()
HTTPS = _address.is_https
TRUSTED_PROXIES = environment.read("TRUSTED_PROXIES")
TLS_CERT_FILE = environment.read("TLS_CERT_FILE")
TLS_KEY_FILE = environment.read("TLS_KEY_FILE")

POD_PORTAL_URL = environment.read("POD_PORTAL_URL")
POD_PORTAL_SELECTOR = environment.read("POD_PORTAL_SELECTOR")
BROWSER_HOSTS = list(_address.hosts)
ALLOWED_HOSTS = [*BROWSER_HOSTS, "127.0.0.1"]
NODE_HOST = environment.read("NODE_HOST")
GATE_TLS_CERT_FILE = environment.read("GATE_TLS_CERT_FILE")
GATE_TLS_KEY_FILE = environment.read("GATE_TLS_KEY_FILE")
# Origins that may open a websocket; a port is part of an origin (portal/web/origins.py).
WEBSOCKET_ORIGINS = list(_address.origins)
# A load balancer may speak to us by plain HTTP; forms come from the same pages all the same.
CSRF_TRUSTED_ORIGINS = WEBSOCKET_ORIGINS

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "portal",
    "tenants",
    "tenants.people",
    "jobs",
    "jobs.usage",
    "jobs.scheduling",
]

MIDDLEWARE = [
    "portal.web.hosts.HostMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenants.people.sessions.LastSeenMiddleware",
    "tenants.audit.refusals.AuditMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.web.rest.FeaturesMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.jinja2.Jinja2",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "environment": "portal.web.jinja.environment",
            "context_processors": [
                "django.contrib.messages.context_processors.messages",
                "portal.web.layout.layout",
            ],
        },
    },
]

_SQLITE = f"sqlite:///{HOMEPORT_HOME / 'homeport.sqlite3'}"
DATABASES = {
    "default": address.parse(
        environment.read("DATABASE_URL") or _SQLITE, conn_max_age=600, conn_health_checks=True
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"]["ENGINE"] = "portal.database.postgres"
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": address.connect_s(DATABASES["default"]["HOST"]),
        "tcp_user_timeout": 10_000,  # milliseconds; the machine behind the connection has gone
        **DATABASES["default"].get("OPTIONS", {}),
    }
else:
    DATABASES["default"]["ENGINE"] = "portal.database.sqlite"
    # IMMEDIATE: a transaction that will write takes the lock at once and waits for it, instead of
    # failing with "database is locked" when it upgrades. WAL: readers never wait for the writer.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # FULL: what was answered has reached the disk; NORMAL loses the last moments at a power cut.
        # secure_delete: copies of the file have nothing that was removed, as values of secrets.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA secure_delete=ON; "
        f"PRAGMA synchronous={environment.read('DATABASE_SYNCHRONOUS')};",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Requests that are worked on at once, each in a thread with a connection (request_threads.py).
WEB_THREADS = environment.read("WEB_THREADS")
POD_THREADS = environment.read("POD_THREADS")
WEB_WAIT_S = environment.read("WEB_WAIT_S")

DRAIN_S = environment.read("DRAIN_S")

REDIS_URL = environment.read("REDIS_URL")
CHANNEL_LAYERS = {
    "default": (
        {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}
    )
}

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
OIDC_ISSUER = environment.read("OIDC_ISSUER")
OIDC_CLIENT_ID = environment.read("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = environment.read("OIDC_CLIENT_SECRET")
OIDC_NAME = environment.read("OIDC_NAME")
OIDC_SCOPES = environment.read("OIDC_SCOPES")
OIDC_GROUPS_CLAIM = environment.read("OIDC_GROUPS_CLAIM")
OIDC_ALLOWED_GROUP = environment.read("OIDC_ALLOWED_GROUP")
OIDC_ADMIN_GROUP = environment.read("OIDC_ADMIN_GROUP")
if OIDC_ISSUER:
    INSTALLED_APPS += ["allauth", "allauth.account", "allauth.socialaccount"]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
    SOCIALACCOUNT_ADAPTER = "tenants.people.oidc.AccountAdapter"
    SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
    SOCIALACCOUNT_STORE_TOKENS = False
    ACCOUNT_EMAIL_VERIFICATION = "none"

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"

SESSION_ENGINE = "tenants.people.models"
# `__Host-`: browsers take it from this very host only, and never from a sibling for the whole domain.
_COOKIE_PREFIX = "__Host-" if HTTPS else ""
SESSION_COOKIE_NAME = f"{_COOKIE_PREFIX}homeport_session"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_NAME = f"{_COOKIE_PREFIX}homeport_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "portal.web.errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
SECURE_SSL_REDIRECT = False  # the load balancer in front speaks TLS, or we do and nothing else
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# X-Forwarded-Proto is read by uvicorn, from TRUSTED_PROXIES only (serve.py, doors.py).
SECURE_PROXY_SSL_HEADER = None
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains: those of the portal's name are not ours to decide on
    "security.W008",  # redirects to HTTPS: the load balancer's, which is all that plain HTTP reaches
    "security.W021",  # HSTS preload: a promise for ever, which only the owner of a domain can give
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

LANGUAGE_CODE = "en"
# The texts are in one language. Looked up in a catalogue all the same, they are a tenth of a page.
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(environment.read("STATIC_ROOT") or HOMEPORT_HOME / "static").resolve()
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "portal.web.statics.HashedStatics"},
}

PORTAL_IMAGE = environment.read("PORTAL_IMAGE")
PORTAL_PULL_SECRET_FILE = environment.read("PORTAL_PULL_SECRET_FILE")
POD_AUTHORITIES_FILE = environment.read("POD_AUTHORITIES_FILE")
EXPORT_IMAGE = environment.read("EXPORT_IMAGE")
BUNDLE_MAX_BYTES = environment.read("BUNDLE_MAX_BYTES")
STORE_MAX_BYTES_PER_TENANT = environment.read("STORE_MAX_BYTES_PER_TENANT")
BUNDLE_KEEP_DAYS = environment.read("BUNDLE_KEEP_DAYS")
RETENTION_DAYS = environment.read("RETENTION_DAYS")
LOW_USE_PERCENT = environment.read("LOW_USE_PERCENT")
LOW_USE_MINUTES = environment.read("LOW_USE_MINUTES")
AUDIT_KEEP_DAYS = environment.read("AUDIT_KEEP_DAYS")
MAX_UNFINISHED_TRAININGS = environment.read("MAX_UNFINISHED_TRAININGS")
MAX_QUEUED = environment.read("MAX_QUEUED")
SUBMITS_PER_MINUTE = environment.read("SUBMITS_PER_MINUTE")
WRITES_PER_MINUTE = environment.read("WRITES_PER_MINUTE")
DISK_RESERVE_BYTES = environment.read("DISK_RESERVE_BYTES")
LOG_ARCHIVE_MAX_BYTES = environment.read("LOG_ARCHIVE_MAX_BYTES")
ARTIFACTS_MAX_BYTES = environment.read("ARTIFACTS_MAX_BYTES")
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024**2  # as portal/server/bodies.py
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1000
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024**2
FILE_UPLOAD_TEMP_DIR = HOMEPORT_HOME
FILE_UPLOAD_HANDLERS = ["portal.web.uploads.WaitingFileHandler"]

KUBECONFIG = environment.read("HOMEPORT_KUBECONFIG")
PURGE_KUBECONFIG = environment.read("PURGE_KUBECONFIG")
WEB_KUBECONFIG = environment.read("WEB_KUBECONFIG")
STORAGE_CLASS = environment.read("STORAGE_CLASS")
NODE_SELECTOR = environment.read("NODE_SELECTOR")
NODE_CIDRS = environment.read("NODE_CIDRS")
DOCTOR_USER = environment.read("DOCTOR_USER")
CLIENT_CIDRS = environment.read("CLIENT_CIDRS")
CLUSTER_CIDRS = environment.read("CLUSTER_CIDRS")
POD_EGRESS_CIDRS = environment.read("POD_EGRESS_CIDRS")
NETWORK_CHECK = environment.read("NETWORK_CHECK")
CATALOG = environment.read("CATALOG") or str(BASE_DIR / "portal" / "catalog.yaml")
S3_BUCKET = environment.read("S3_BUCKET")
S3_ENDPOINT = environment.read("S3_ENDPOINT")
S3_POD_ENDPOINT = environment.read("S3_POD_ENDPOINT")
S3_REGION = environment.read("S3_REGION")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "portal.web.permissions.ByVerb",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.web.parsers.JsonParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "portal.web.rest.Pagination",
    "EXCEPTION_HANDLER": "portal.web.rest.exception_handler",
    "UNICODE_JSON": True,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Homeport",
    "DESCRIPTION": "Trainings, notebooks and tenants on a Kubernetes cluster.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.web.openapi.without_labels",
    ],
    # Names that clients were made from, as the document had them from the first.
    "ENUM_NAME_OVERRIDES": {
        "PurgeDataEnum": "tenants.models.Tenant.Data",
        "DataEnum": ["keep", "delete"],
        "State8bcEnum": "jobs.kinds.interactive.spec.STATES",
        "JobStateEnum": "jobs.rules.states.WORKLOAD_STATES",
        "DryRunStateEnum": ["accepted", "queued", "refused"],
        "JobConditionTypeEnum": "jobs.rules.conditions.TYPES",
        "JobConditionStatusEnum": ["True", "False"],
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": "portal.log_lines.JsonLines"},
    },
    "filters": {
        "of_clients": {"()": "portal.web.log_filters.OfClients"},
        "once_a_minute": {"()": "portal.web.log_filters.OnceAMinute"},
        "known_cause": {"()": "portal.web.log_filters.KnownCause"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": environment.read("LOG_FORMAT"),
            "filters": ["of_clients"],
        }
    },
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR", "filters": ["known_cause"]},
        "django.channels.server": {"level": "WARNING"},
        # Both tell of a Redis that is away, at each try.
        "portal.live": {"filters": ["once_a_minute"]},
        "channels_redis.pubsub": {"filters": ["once_a_minute"]},
    },
}
