"""Conversion of fsspec's options for object stores to the options of obstore."""

from __future__ import annotations

import configparser
import inspect
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastload.runtime.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AZURE",
    "GCS",
    "S3",
    "NativeOptions",
    "UnsupportedOptionsError",
    "check_gcs_options",
    "connection_config",
    "object_store_options",
]

AZURE = ("az", "abfs", "abfss")
GCS = ("gs", "gcs")
S3 = ("s3", "s3a")

# Options of fsspec's filesystems that concern neither the location of the bytes nor the access
# to them. obstore needs none of these.
_IGNORED = {
    "access", "blocksize", "cache_timeout", "cache_type", "check_connection",
    "connection_timeout", "consistency", "default_block_size", "default_cache_type",
    "default_fill_cache", "max_concurrency", "project", "read_timeout", "requests_timeout",
    "session_kwargs", "skip_instance_cache", "socket_timeout", "timeout", "use_listings_cache",
    "use_ssl", "version_aware",
}  # fmt: skip
# Words of other stores for options of gcsfs.
_GCS_WORDS = {"anon": 'token="anon"', "credentials": "token", "endpoint": "endpoint_url"}
# The kinds of Google's credentials files that obstore reads.
_GOOGLE_KINDS = ("service_account", "authorized_user")
_GOOGLE_LOGIN = "~/.config/gcloud/application_default_credentials.json"
# Settings of an AWS profile that fetch the keys from another source.
_PROFILE_SOURCES = (
    "credential_process", "credential_source", "role_arn", "sso_session", "sso_start_url",
    "web_identity_token_file",
)  # fmt: skip


class UnsupportedOptionsError(ValueError):
    """An option in storage_options has no counterpart in obstore."""


@dataclass
class NativeOptions:
    """Options to make obstore's stores of one protocol with.

    Attributes:
        config: configuration of the store.
        client: configuration of the store's HTTP client.
        keys: S3 credentials; None = those of `config`, or credentials that obstore finds. `keys`
            stand apart from `config`, so that obstore does not mix them with credentials of the
            environment.
    """

    config: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, Any] | None = None

    @classmethod
    def of(cls, protocol: str, options: Mapping[str, Any]) -> NativeOptions:
        """Convert storage_options and the environment to obstore's options.

        Args:
            protocol: scheme of the URLs.
            options: options in the words of fsspec.

        Raises:
            UnsupportedOptionsError: obstore has no counterpart of an option, which is named.
        """
        given = {k: v for k, v in options.items() if k not in _IGNORED and v is not None}
        made = cls()
        if protocol in GCS:
            made._take_gcs(given)
        elif protocol in S3:
            made._take_s3(given)
        elif protocol in AZURE:
            made._take_azure(given)
        if given:
            name, value = next(iter(given.items()))
            raise UnsupportedOptionsError(
                f"Expected storage_options that the native transport knows, got `{name}` "
                f'({_kind(value)}) for {protocol}://: write IO(transport="fsspec")'
            )
        return made

    def _take_gcs(self, given: dict[str, Any]) -> None:
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        endpoint = given.pop("endpoint_url", None) or emulator
        if endpoint:
            self.config["base_url"] = endpoint if "://" in endpoint else f"http://{endpoint}"
        token = given.pop("token", None) or ("anon" if emulator else None)
        if token == "anon":  # noqa: S105 - no secret: gcsfs's word for none
            self.config["skip_signature"] = True
        elif isinstance(token, dict) and token.get("type") == "service_account":
            self.config["service_account_key"] = json.dumps(token)
        elif isinstance(token, str) and Path(token).is_file():
            _check_google_file(Path(token))
            self.config["application_credentials"] = token
        elif token in (None, "google_default"):
            usual = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or _GOOGLE_LOGIN
            _check_google_file(Path(usual).expanduser())
        elif token != "cloud":  # noqa: S105 - no secret: gcsfs's word for the machine's account
            given["token"] = token

    # S3 -----------------------------------------------------------------------------------

    def _take_s3(self, given: dict[str, Any]) -> None:
        client = dict(given.pop("client_kwargs", None) or {})
        profile = given.pop("profile", None)
        anon = given.pop("anon", None)
        keys = {name: given.pop(name, None) for name in ("key", "secret", "token")}
        keys["key"] = keys["key"] or given.pop("username", None)
        keys["secret"] = keys["secret"] or given.pop("password", None)
        if anon:
            self.config["skip_signature"] = True
        elif keys["key"]:
            self._take_keys(keys["key"], keys["secret"], keys["token"])
        elif profile or "AWS_ACCESS_KEY_ID" not in os.environ:
            self._take_profile(profile)
        endpoint = client.pop("endpoint_url", None) or given.pop("endpoint_url", None)
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3")
        if endpoint:
            self.config["endpoint"] = endpoint
        region = client.pop("region_name", None)
        if region:
            self.config["region"] = region
        if given.pop("requester_pays", False):
            self.config["request_payer"] = True
        self._take_verify(client.pop("verify", os.environ.get("AWS_CA_BUNDLE") or True))
        if client:
            given["client_kwargs"] = client

    def _take_keys(self, key: str, secret: str | None, token: str | None) -> None:
        self.keys = {
            "access_key_id": key,
            "secret_access_key": secret or "",
            "token": token,
            "expires_at": None,
        }

    def _take_verify(self, verify: bool | str) -> None:
        if isinstance(verify, str):
            self.client["root_certificate"] = Path(verify).read_bytes()
        elif not verify:
            self.client["allow_invalid_certificates"] = True

    def _take_profile(self, profile: str | None) -> None:
        """Take the keys of a profile in AWS's own files, which obstore does not read."""
        named = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        found = _read_profile(named or "default")
        if found is None:
            if named:
                raise UnsupportedOptionsError(
                    f"Expected the AWS profile `{named}` in the shared credentials file, got none"
                )
            return
        if "aws_access_key_id" in found:
            self._take_keys(
                found["aws_access_key_id"],
                found.get("aws_secret_access_key"),
                found.get("aws_session_token"),
            )
        for source in _PROFILE_SOURCES:
            if self.keys is None and source in found:
                raise UnsupportedOptionsError(
                    "Expected an AWS profile with keys for the native transport, got "
                    f'`{source}` in `{named or "default"}`: write IO(transport="fsspec")'
                )
        if "region" in found and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
            self.config["region"] = found["region"]
        if "endpoint_url" in found and "AWS_ENDPOINT_URL" not in os.environ:
            self.config["endpoint"] = found["endpoint_url"]

    # Azure --------------------------------------------------------------------------------

    def _take_azure(self, given: dict[str, Any]) -> None:
        text = given.pop("connection_string", None)
        text = text or os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
        if text:
            self.config |= connection_config(text)
        # credential_type must be set, because obstore would prefer credentials of the environment.
        kinds = {
            "account_key": "access_key",
            "sas_token": "sas_token",
            "client_id": "client_secret",
        }
        for name in ("account_name", "account_key", "sas_token", "client_id", "client_secret",
                     "tenant_id"):  # fmt: skip
            value = given.pop(name, None)
            if value is None:
                continue
            own = "sas_key" if name == "sas_token" else name
            self.config.setdefault(own, value.removeprefix("?"))
            if name in kinds:
                self.config.setdefault("credential_type", kinds[name])
        host = given.pop("account_host", None)
        endpoint = given.pop("endpoint_url", None) or (host and f"https://{host}")
        if endpoint:
            self.config.setdefault("endpoint", endpoint)
        anon = given.pop("anon", None)
        if anon is None:
            anon = os.environ.get("AZURE_STORAGE_ANON", "true").lower() not in ("false", "0", "f")
        names = ("ACCOUNT_KEY", "ACCESS_KEY", "SAS_TOKEN", "SAS_KEY", "CLIENT_ID", "TOKEN")
        known = any(f"AZURE_STORAGE_{name}" in os.environ for name in names)
        if anon and "credential_type" not in self.config and not known:
            self.config["skip_signature"] = True


def check_gcs_options(options: Mapping[str, Any]) -> None:
    """Raise an error for options that gcsfs does not know, which gcsfs would ignore.

    Args:
        options: options in the words of fsspec.

    Raises:
        ValueError: gcsfs does not know an option, which is named.
    """
    try:
        from fsspec.asyn import AsyncFileSystem
        from fsspec.dircache import DirCache
        from gcsfs.core import GCSFileSystem
    except ImportError:
        return  # whoever opens the store says what is missing
    known = {
        name
        for each in (GCSFileSystem, AsyncFileSystem, DirCache)
        for name, parameter in inspect.signature(each.__init__).parameters.items()
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    }
    for name in options:
        if name not in known | _IGNORED:
            near = [_GCS_WORDS[name]] if name in _GCS_WORDS else nearest(name, sorted(known))
            hint = f": write {' or '.join(f'`{each}`' for each in near)}" if near else ""
            raise ValueError(
                f"Expected storage_options that gcsfs knows for gs://, got `{name}`{hint}"
            )


def object_store_options(protocol: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Convert storage_options to options of the Rust library object_store, all of them text.

    Args:
        protocol: scheme of the URLs.
        options: options in the words of fsspec.

    Raises:
        UnsupportedOptionsError: object_store has no counterpart of an option, which is named.
    """
    native = NativeOptions.of(protocol, options)
    made = {**native.config, **native.client}
    for name in ("access_key_id", "secret_access_key", "token"):
        if native.keys and native.keys[name]:
            made[name] = native.keys[name]
    made.pop("root_certificate", None)  # no text: object_store takes one from $SSL_CERT_FILE
    endpoints = (str(made.get(name, "")) for name in ("endpoint", "base_url"))
    if any(endpoint.startswith("http://") for endpoint in endpoints):
        made["allow_http"] = True
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in made.items()
    }


def _kind(value: object) -> str:
    """Describe the type of an option without showing its value, which may be secret."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return f"a dict of type {value['type']}"
    return f"of type {type(value).__name__}"


def _check_google_file(path: Path) -> None:
    """Raise if a file, where there is one, has credentials of a kind that obstore does not read.

    Federated credentials (`external_account`), as CI systems write them, are of such a kind.
    """
    try:
        kind = json.loads(path.read_bytes()).get("type")
    except (OSError, ValueError, AttributeError):
        return  # obstore says what is wrong with the file
    if isinstance(kind, str) and kind not in _GOOGLE_KINDS:
        raise UnsupportedOptionsError(
            f"Expected Google credentials of type {' or '.join(_GOOGLE_KINDS)} for the native "
            f'transport, got `{kind}` in {path}: write IO(transport="fsspec")'
        )


def _read_profile(name: str) -> dict[str, str] | None:
    """Read a profile from AWS's config and credentials files; the credentials file prevails.

    Returns:
        The settings of the profile; None if neither file has the profile.
    """
    files = {
        "AWS_CONFIG_FILE": ("~/.aws/config", name if name == "default" else f"profile {name}"),
        "AWS_SHARED_CREDENTIALS_FILE": ("~/.aws/credentials", name),
    }
    found: dict[str, str] = {}
    known = False
    for variable, (usual, section) in files.items():
        parser = configparser.RawConfigParser()
        parser.read(Path(os.environ.get(variable) or usual).expanduser())
        if parser.has_section(section):
            known = True
            found |= dict(parser.items(section))
    return found if known else None


def connection_config(text: str) -> dict[str, Any]:
    """Convert an Azure connection string to the configuration of a store."""
    parts = dict(part.split("=", 1) for part in text.strip("; \n").split(";") if "=" in part)
    config: dict[str, Any] = {}
    if parts.get("UseDevelopmentStorage", "").lower() == "true":
        config["use_emulator"] = True
    if "AccountName" in parts:
        config["account_name"] = parts["AccountName"]
    if "AccountKey" in parts:
        config |= {"account_key": parts["AccountKey"], "credential_type": "access_key"}
    elif "SharedAccessSignature" in parts:
        signature = parts["SharedAccessSignature"].removeprefix("?")
        config |= {"sas_key": signature, "credential_type": "sas_token"}
    if "BlobEndpoint" in parts:
        config["endpoint"] = parts["BlobEndpoint"].rstrip("/")
    elif "EndpointSuffix" in parts and "AccountName" in parts:
        scheme = parts.get("DefaultEndpointsProtocol", "https")
        config["endpoint"] = f"{scheme}://{parts['AccountName']}.blob.{parts['EndpointSuffix']}"
    return config
