"""Numbers as people read them: with significant digits instead of decimals, in units that suit them."""

import math


def number_text(value: float | None, digits: int = 3) -> str:
    """Return `value` with at least `digits` significant digits and no false precision: 24,103, 1.52, 0.00481."""
    if value is None:
        return ""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def percent_text(value: float | None) -> str:
    """Return a share in percent with two significant digits, e.g. ``87 %``."""
    return "" if value is None else f"{number_text(value, 2)} %"


def bytes_text(value: float | None) -> str:
    """Return a number of bytes in decimal units with three digits, e.g. ``1.52 GB``."""
    if value is None:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{number_text(value)} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1000
    return f"{number_text(value)} TB"


def duration_text(seconds: float | None) -> str:
    """Return a length of audio in the unit that suits it, e.g. ``1.33 hours``."""
    if seconds is None:
        return ""
    unit, size = next((u, n) for u, n in (("hours", 3600), ("minutes", 60), ("seconds", 1)) if seconds >= n or n == 1)
    return f"{number_text(seconds / size)} {unit}"
