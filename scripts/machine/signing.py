"""Credentials for object storage, and requests that are signed with them."""

import configparser
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.common.errors import UserError

KEY, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
MADE_UP = "feedrate-made-up"
VALID_SECONDS = 3600  # of a signature


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


def presigned(method: str, url: str, who: Credentials, region: str) -> str:
    """Return the URL with a signature in its query, valid from now on. Headers other than the host may be added."""
    from botocore import auth, awsrequest

    request = awsrequest.AWSRequest(method, url)
    auth.S3SigV4QueryAuth(who, "s3", region, VALID_SECONDS).add_auth(request)
    return request.url
