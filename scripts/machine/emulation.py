"""Emulated storage: which limits make a fast disk pass for a slower one, and where their figures come from.

The limits are the kernel's (`machine/control_groups.py`); docs/storage.md says what they do not emulate.
"""

from collections.abc import Mapping
from typing import Any

from scripts.common.errors import UserError

OWN = {  # limits of a user's own: the kernel takes whole bytes and whole reads a second
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "read_mbps": {"type": "number", "minimum": 0.001, "maximum": 1e9},
        "read_iops": {"type": "number", "minimum": 1, "maximum": 1e9},
    },
}
PRESETS: dict[str, dict[str, Any]] = {
    "hdd_7200": {
        "read_mbps": 200.0,
        "read_iops": 86.0,
        "source": "read_iops: derived, 1 s / (7.4 ms average read seek + 4.16 ms half a rotation at 7,200 rpm) = 86, "
        "from the hard disk drive specification of the Ultrastar DC HC310 (Western Digital, 2018, section 4.5.1), "
        "without the time to transfer. read_mbps: a round figure of ours for the middle of such a disk, from no data "
        "sheet",
    },
    "sata_ssd": {
        "read_mbps": 560.0,
        "read_iops": 98_000.0,
        "source": "SSD 870 EVO, specifications (Samsung, 2021): sequential read up to 560 MB/s, random read of 4 KiB "
        "at a queue depth of 32 up to 98,000 IOPS",
    },
    "cloud_volume": {
        "read_mbps": 131.072,
        "read_iops": 3_000.0,
        "source": "Amazon EBS volume types, General Purpose SSD gp3 (AWS documentation): baseline of 125 MiB/s "
        "(131.072 MB/s) and 3,000 IOPS",
    },
}


def limits(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return `name` (a preset's, or "custom"), `read_mbps`, `read_iops` (None: not limited) and `source`.

    None where the tier's options ask for no emulation. Raises UserError for values that are no limits.
    """
    wanted = options.get("emulate")
    if wanted is None:
        return None
    from scripts.common.schema import problems

    schema = OWN if isinstance(wanted, Mapping) else {"enum": list(PRESETS)}
    if wrong := problems({"emulate": wanted}, {"properties": {"emulate": schema}}):
        raise UserError(
            f"{wrong[0]} Write for example emulate: hdd_7200, or emulate: {{read_mbps: 150, read_iops: 100}}."
        )
    if isinstance(wanted, str):
        return {"name": wanted, **PRESETS[wanted]}
    return {"name": "custom", **{key: wanted.get(key) for key in OWN["properties"]}, "source": "set in config.yaml"}
