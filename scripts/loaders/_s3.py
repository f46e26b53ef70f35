"""What is outside of programs that read object storage: where it is, and what their errors say to users.

What programs share is in `_plain/objects.py`. No loader lists a bucket: the objects are those of the index that placing
has left (`index.json`, beside the label arrays).
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.common.errors import UserError
from scripts.common.location import Location
from scripts.machine.objects import bucket_of, read_index
from scripts.machine.signing import TOKEN

READS = ("s3",)
ENDPOINT = "AWS_ENDPOINT_URL"
IN_FLIGHT = {"in_flight": {"enum": [20, 5, 64], "default": 20}}  # requests at a time, in each process that reads


@contextmanager
def served(location: Location) -> Iterator[None]:
    """Have a program find in the environment where objects are; what it says of one becomes a UserError."""
    if not location.endpoint:
        yield
        return
    from scripts.loaders._plain.objects import ObjectError

    if location.read_by == "s3":
        bucket_of(location)  # or an error that says which credentials are absent
        if not os.environ.get(TOKEN):
            os.environ.pop(TOKEN, None)  # one that is empty would be sent by obstore
    before = os.environ.get(ENDPOINT)
    os.environ[ENDPOINT] = location.endpoint
    try:
        yield
    except ObjectError as error:
        raise UserError(
            f"object {_named(str(error))}; allowed is the object of the index, whole. See whether the storage can be "
            "reached, and whether the credentials in the environment are valid. If the object has changed or is gone, "
            "place the format again: delete its record in results/placed and type the same command."
        ) from None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        read_index(location.index)  # where the index is not whole, it says so
        raise
    finally:
        os.environ.pop(ENDPOINT)
        if before is not None:
            os.environ[ENDPOINT] = before


def _named(text: str) -> str:
    """Return the name of an object and what is wrong with it, out of an ObjectError's text.

    Of a worker's that is the end of a traceback. A server's own text and a signed query are left out: they may hold
    what was signed.
    """
    name, _, found = text.rpartition("object s3://")[2].partition(": ")
    code = re.search(r"<Code>(\w{1,64})</Code>", found)
    said = re.sub(r"\?\S*X-Amz-\S*", "", found.partition("<")[0]).strip()
    return " ".join(filter(None, (f"s3://{name}: found {said}", code and code[1])))
