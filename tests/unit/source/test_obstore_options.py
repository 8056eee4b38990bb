"""fsspec's words for where bytes lie and who may read them, in obstore's."""

import pytest

from fastload.source.stores.obstore_options import NativeOptions, UnsupportedOptionsError

KEY = "c2VjcmV0"


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
                 "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE",
                 "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ANON",
                 "AZURE_STORAGE_ACCOUNT_KEY", "STORAGE_EMULATOR_HOST"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def config(protocol, **options):
    return NativeOptions.of(protocol, options).config


def test_azure():
    key = {"account_key": KEY, "credential_type": "access_key"}
    sas = {"sas_key": "sv=1&sig=a%3D", "credential_type": "sas_token"}
    service = {"client_id": "i", "client_secret": "s", "tenant_id": "t"}
    name = {"account_name": "a"}
    assert config("az", account_name="a", account_key=KEY) == {**name, **key}
    assert config("az", account_name="a", sas_token="?sv=1&sig=a%3D") == {**name, **sas}
    assert config("abfs", account_name="a") == {**name, "skip_signature": True}
    assert config("abfs", account_name="a", anon=False) == name
    assert config("abfss", account_name="a", **service) == {
        **name, **service, "credential_type": "client_secret"
    }  # fmt: skip
    assert config("az", account_name="a", anon=True, account_host="h") == {
        **name, "endpoint": "https://h", "skip_signature": True
    }  # fmt: skip
    text = f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={KEY}==;EndpointSuffix=core.x"
    assert config("az", connection_string=text) == {
        **name, **key, "account_key": KEY + "==", "endpoint": "https://a.blob.core.x"
    }  # fmt: skip
    text = "BlobEndpoint=http://h:1/a/;SharedAccessSignature=sv=1&sig=a%3D"
    assert config("az", connection_string=text) == {**sas, "endpoint": "http://h:1/a"}
    assert config("az", connection_string="UseDevelopmentStorage=true")["use_emulator"]


def test_azure_of_the_environment(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)  # which obstore reads
    assert config("az", account_name="a") == {"account_name": "a"}
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"AccountName=b;AccountKey={KEY}")
    assert config("az")["account_name"] == "b"


def test_s3(tmp_path):
    made = NativeOptions.of("s3", {"key": "k", "secret": "s"})
    # As they are given: no token of the environment comes along.
    assert made.keys == {
        "access_key_id": "k", "secret_access_key": "s", "token": None, "expires_at": None
    }  # fmt: skip
    assert config("s3", anon=True, requester_pays=True) == {
        "skip_signature": True, "request_payer": True
    }  # fmt: skip
    client = {"endpoint_url": "http://h", "region_name": "r", "verify": False}
    made = NativeOptions.of("s3", {"client_kwargs": client})
    assert made.config == {"endpoint": "http://h", "region": "r"}
    assert made.client == {"allow_invalid_certificates": True}
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(b"PEM")
    made = NativeOptions.of("s3", {"client_kwargs": {"verify": str(bundle)}})
    assert made.client == {"root_certificate": b"PEM"}


def test_s3_profiles(tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text("[p]\naws_access_key_id=k\naws_secret_access_key=s\n")
    (tmp_path / "config").write_text(
        "[profile p]\nregion = r\n[profile q]\nsso_session = corp\n"
        "[profile r]\nendpoint_url = http://h\naws_access_key_id = x\n"
    )
    made = NativeOptions.of("s3", {"profile": "p"})
    assert made.keys["access_key_id"] == "k"
    assert made.config == {"region": "r"}
    monkeypatch.setenv("AWS_PROFILE", "r")
    assert NativeOptions.of("s3", {}).config == {"endpoint": "http://h"}
    with pytest.raises(UnsupportedOptionsError, match=r"`sso_session` in `q`: write IO\(tran"):
        NativeOptions.of("s3", {"profile": "q"})
    with pytest.raises(UnsupportedOptionsError, match="profile `z`"):
        NativeOptions.of("s3", {"profile": "z"})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")  # goes before AWS_PROFILE
    assert NativeOptions.of("s3", {}).keys is None


@pytest.mark.parametrize(
    ("protocol", "options", "said"),
    [
        ("az", {"credential": object()}, r"`credential` \(of type object\)"),
        ("s3", {"config_kwargs": {"secret": KEY}}, r"`config_kwargs` \(of type dict\)"),
        ("gs", {"token": {"type": "authorized_user", "x": KEY}}, "a dict of type authorized_user"),
        ("gs", {"token": KEY}, r"`token` \(of type str\)"),
        ("https", {"headers": {"x": KEY}}, "`headers`"),
    ],
)
def test_what_it_can_not_do(protocol, options, said):
    with pytest.raises(UnsupportedOptionsError, match=said) as raised:
        NativeOptions.of(protocol, options)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize("way", ["variable", "login", "token", "google_default"])
def test_google_credentials_that_obstore_does_not_read(monkeypatch, tmp_path, way):
    """Under transport="auto", gcsfs reads with federated credentials, as CI systems write them."""
    path = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"type": "external_account"}')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    options = {}
    if way != "login":
        path = path.rename(tmp_path / "federated.json")
    if way == "token":
        options = {"token": str(path)}
    elif way != "login":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    if way == "google_default":
        options = {"token": way}
    with pytest.raises(UnsupportedOptionsError, match=r"got `external_account` in .*fsspec"):
        config("gs", **options)
    path.write_text('{"type": "authorized_user"}')
    expected = {"application_credentials": str(path)} if way == "token" else {}
    assert config("gs", **options) == expected
    assert config("gs", token="cloud") == {}
