"""Signatures of requests to object storage: AWS Signature Version 4 in the query, and the keys that it needs.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

import configparser
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from scripts.common.errors import UserError

KEY, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
MADE_UP = "feedrate-made-up"
LONGEST = 7 * 24 * 3600  # seconds that a signature may be valid


@dataclass(frozen=True)
class Credentials:
    """Who asks. What is secret is not shown where it is printed."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def credentials(own: bool = False) -> Credentials:
    """Return the credentials in the environment, the only place that they are taken from.

    Raises UserError where there are none; where they must be the user's `own`, also for those that are made up.
    """
    absent = [name for name in (KEY, SECRET) if not os.environ.get(name)]
    if absent or (own and os.environ[KEY] == MADE_UP):
        raise UserError(
            f"object storage: found no {' and no '.join(absent or (KEY, SECRET))} in the environment; allowed are "
            f"credentials of a user who may read and write the bucket. Type `export {KEY}=... {SECRET}=...` (and "
            f'{TOKEN}, of a role), or `eval "$(aws configure export-credentials --format env)"`.'
        )
    return Credentials(os.environ[KEY], os.environ[SECRET], os.environ.get(TOKEN) or None)


def credentials_in(path: Path, profile: str = "default") -> Credentials:
    """Return the credentials in a file: Amazon's own form (`aws_access_key_id = ...` below [profile]), or JSON.

    Raises UserError, which repeats nothing of the file, where it cannot be read or has none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            found = json.loads(text)
        else:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_string(text)
            found = parser[profile]
        known = {str(name).lower(): value for name, value in found.items()}
        return Credentials(
            *(known[name.lower()] for name in (KEY, SECRET)), known.get(TOKEN.lower()) or known.get("session_token")
        )
    except (OSError, ValueError, configparser.Error, KeyError) as error:
        raise UserError(
            f"credentials: found {str(path)!r}, which gives none for {profile!r} ({type(error).__name__}); allowed is "
            f"a file with {KEY.lower()} and {SECRET.lower()}, as JSON or below [{profile}]. Name another one, or leave "
            "the option out and export them."
        ) from None


@contextmanager
def made_up() -> Iterator[None]:
    """Have credentials in the environment while a server of feedrate's own is asked; made-up ones where none are."""
    before = {name: os.environ[name] for name in (KEY, SECRET) if os.environ.get(name)}
    if len(before) < 2:
        os.environ.update({KEY: MADE_UP, SECRET: MADE_UP})
    try:
        yield
    finally:
        for name in (KEY, SECRET):
            os.environ.pop(name, None)
        os.environ.update(before)


def presigned(
    method: str,
    host: str,
    path: str,
    who: Credentials,
    region: str,
    moment: datetime,
    seconds: int = 3600,
    query: Mapping[str, str] | None = None,
) -> str:
    """Return the target of a request, path and query, signed for so many seconds from the moment (UTC) on.

    `path` begins with a slash and is not encoded yet. Only the host is signed of the headers: others may be added.
    """
    day, now = moment.strftime("%Y%m%d"), moment.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{region}/s3/aws4_request"
    given = {
        **(query or {}),
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{who.access_key}/{scope}",
        "X-Amz-Date": now,
        "X-Amz-Expires": str(min(seconds, LONGEST)),
        "X-Amz-SignedHeaders": "host",
        **({"X-Amz-Security-Token": who.token} if who.token else {}),
    }
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(given.items()))
    target = quote(path, safe="/")
    canonical = f"{method}\n{target}\n{asked}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signed = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
    signature = _hmac(_signing_key(who.secret_key, day, region), signed).hex()
    return f"{target}?{asked}&X-Amz-Signature={signature}"


@lru_cache(maxsize=8)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
