"""What a call for one loader ends with."""

from scripts.report.loader_lines import loader_lines

RESULT = {
    "loader": "a",
    "tier": "ram",
    "slug": "cpu-b32",
    "status": "ok",
    "reason": "",
    "result_items_per_second": 1234.5,
    "result_interval_low": 1100.0,
    "result_interval_high": 1400.0,
    "result_runs": 5,
    "result_bottleneck": "decode",
    "result_status": "ok",
    "result_reason": "",
}


def test_a_line_for_each_result_the_fastest_first_and_each_reason_once():
    slower = RESULT | {"tier": "disk", "result_items_per_second": 99.4, "result_runs": 1, "result_interval_low": None}
    failed = RESULT | {"tier": "hdd", "result_items_per_second": None, "result_status": "failed", "result_reason": "no"}
    skipped = {"loader": "a", "tier": "", "status": "skipped", "reason": "no GPU"}
    assert loader_lines([slower | {"result_bottleneck": ""}, RESULT, RESULT, failed, skipped, skipped]) == [
        "a on ram (cpu-b32): 1,234 items/s (1,100 to 1,400, 5 runs, bottleneck: decoding)",
        "a on disk (cpu-b32): 99.4 items/s (1 run)",
        "a on hdd (cpu-b32): failed, no",
        "a: skipped, no GPU",
    ]
