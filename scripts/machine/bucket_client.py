"""boto3 for what is not timed: to list a bucket, to send objects, and to read one whole."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from scripts.common.errors import UserError
from scripts.machine.objects import Bucket
from scripts.machine.signing import credentials, credentials_in

SECONDS = 30.0  # in which a server must connect, and then send something
ATTEMPTS = 8


class Listed(NamedTuple):
    """An object as a bucket lists it."""

    key: str
    size: int
    etag: str  # without quotation marks


@contextmanager
def client_of(bucket: Bucket, connections: int = 1) -> Iterator[Any]:
    """Have a boto3 client for a bucket; what it raises within the block becomes a UserError without secrets."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    where, style = f"bucket {bucket.name} at {bucket.endpoint}", "path" if bucket.path_style else "virtual"
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=bucket.endpoint,
        region_name=bucket.region,
        aws_access_key_id=bucket.who.access_key,
        aws_secret_access_key=bucket.who.secret_key,
        aws_session_token=bucket.who.token,
        config=Config(
            max_pool_connections=connections,
            connect_timeout=SECONDS,
            read_timeout=SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            s3={"addressing_style": style},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    try:
        yield client
    except ClientError as error:
        raise UserError(f"{where}: found {code_of(error)} for {error.operation_name}; {_advice(error)}") from None
    except BotoCoreError as error:
        raise UserError(
            f"{where}: found {type(error).__name__}, after {ATTEMPTS} attempts; allowed is storage that "
            "answers. See whether the endpoint can be reached, and type the same command again."
        ) from None
    finally:
        client.close()


def bucket_named(options: Mapping[str, Any]) -> Bucket:
    """Return the `bucket` of options that have `endpoint` (None: Amazon's), `region`, `credentials` and `profile` too.

    `credentials` is a file's path; None: those in the environment. Raises UserError where it gives none.
    """
    file = options["credentials"]
    who = credentials_in(Path(file).expanduser(), options["profile"]) if file else credentials()
    endpoint = (options["endpoint"] or f"https://s3.{options['region']}.amazonaws.com").rstrip("/")
    return Bucket(options["bucket"], endpoint, options["region"], bool(options["endpoint"]), who)


def make_bucket(client: Any, name: str) -> None:
    """Make a bucket, which may be there already."""
    from botocore.exceptions import ClientError

    try:
        client.create_bucket(Bucket=name)
    except ClientError as error:
        if code_of(error) not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise


def listed(client: Any, bucket: str, prefix: str) -> Iterator[Listed]:
    """Yield the objects whose keys begin with `prefix`, in order of their keys, page by page."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for found in page.get("Contents", ()):
            yield Listed(found["Key"], found["Size"], found["ETag"].strip('"'))


def code_of(error: Any) -> str:
    """Return the code of a client's error, such as AccessDenied or 404."""
    return str(error.response.get("Error", {}).get("Code", "an error"))


def _advice(error: Any) -> str:
    code = code_of(error)
    if code in ("ExpiredToken", "RequestExpired"):
        return "allowed are credentials that have not expired: export new ones, and type the same command again."
    if code in ("NoSuchBucket", "404"):
        return "allowed is a bucket that exists. Make it, or name another one in the tier's options."
    if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403:
        return (
            "allowed are credentials of a user who may list, read and write it. Export AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, of a role), and check the clock."
        )
    return "allowed is storage that speaks S3's protocol. See endpoint, bucket, region and path_style of the tier."
