"""Where the API server is and who we are there: from a kubeconfig or the pod's own account.

The official client reads both; nothing else of it is used. Everything here may block (files,
credential plugins), so it is called in a thread.
"""

import ssl
from dataclasses import dataclass
from typing import Any

import yaml

from portal.cluster.errors import CredentialsError

# What the official client raises on a file that is YAML but no kubeconfig.
_ODD_CONTENT = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class Credentials:
    """How to call one API server.

    Attributes:
        server: URL without a trailing slash.
        tls: context with the cluster's CA and, when there is one, the client certificate.
        server_hostname: name that the certificate is checked against instead of the URL's.
        configuration: the official client's; it renews tokens.
    """

    server: str
    tls: ssl.SSLContext | None
    server_hostname: str | None
    configuration: Any

    def authorization(self) -> str | None:
        """Value of the Authorization header; a token that is about to expire is renewed first."""
        hook = self.configuration.refresh_api_key_hook
        if hook is not None:
            hook(self.configuration)
        value = self.configuration.api_key.get("BearerToken")
        if not value:
            return None
        scheme, _, token = str(value).partition(" ")
        return f"Bearer {token}" if scheme.lower() == "bearer" and token else f"Bearer {value}"


def _tls_context(configuration: Any) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https:"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:  # `insecure-skip-tls-verify: true` in the kubeconfig
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def load(kubeconfig: str) -> Credentials:
    """Credentials of the current context of a file; of the pod's service account when empty.

    Raises:
        CredentialsError: there is nothing usable; the text says what to set.
    """
    # Imported here: costs 0.2 s that tests and commands without a cluster need not pay.
    from kubernetes import config
    from kubernetes.client import Configuration

    configuration = Configuration()
    where = kubeconfig or "the in-cluster service account"
    try:
        if kubeconfig:
            config.load_kube_config(
                config_file=kubeconfig, client_configuration=configuration, persist_config=False
            )
        else:
            config.load_incluster_config(client_configuration=configuration)
        return Credentials(
            server=configuration.host.rstrip("/"),
            tls=_tls_context(configuration),
            server_hostname=getattr(configuration, "tls_server_name", None) or None,
            configuration=configuration,
        )
    except (config.ConfigException, OSError, yaml.YAMLError, *_ODD_CONTENT) as error:
        raise CredentialsError(
            f"no credentials for the cluster from {where}: {error}; "
            "set HOMEPORT_KUBECONFIG to the kubeconfig of a cluster"
        ) from error
