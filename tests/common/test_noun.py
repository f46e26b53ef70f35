"""What an item of the data is called, on the page, in figures and on the terminal."""

import pytest

from scripts.common.files import read_json, write_json
from scripts.common.noun import worded, worded_page
from scripts.report.draw_figures import picture, style
from scripts.report.terminal import ranking_lines
from tests.support.made_runs import Made, make_results
from tests.support.report_pages import rendered, spaced


@pytest.mark.parametrize(("text", "said"), [
    ("1,234 clips/s of a clip", "1,234 images/s of an image"),
    ("A clip. Clips per second", "An image. Images per second"),
    ("clips_per_second, eclipse, clipped", "clips_per_second, eclipse, clipped"),
    ("clips/s of my-clips in /data/clips, a.clips", "images/s of my-clips in /data/clips, a.clips"),
    ("gather=clip of clips", "gather=clip of images"),
])  # fmt: skip
def test_words_are_replaced_and_parts_of_words_are_not(text, said):
    assert worded(text, "image") == said and worded(text, "clip") == text


def test_code_and_addresses_of_a_page_stay():
    page = '<p id="clips" title="clips/s">a clip <code>clips</code> clips</p><script>clips</script><pre>clip</pre>'
    right = '<p id="clips" title="arrays/s">an array <code>clips</code> arrays</p><script>clips</script><pre>clip</pre>'
    assert worded_page(page, "array") == right and worded_page(page, "clip") == page


def test_a_page_of_images_says_images(tmp_path):
    runs = [speed * 1000.0 for speed in (0.99, 1.0, 1.01, 1.0, 1.0)]
    plan = make_results(tmp_path, [Made("numpy_memmap", "disk", runs), Made("npy", "disk", runs, "npy")])
    corpus = tmp_path / "results/corpus/demo/corpus.json"
    item = {"key": "image", "dtype": "uint8", "shape": [3, 8, 8], "stored": "uint8", "kind": "image"}
    write_json(corpus, {**read_json(corpus), "sample": {**item, "ending": "jpg", "decoding": "decoded to 8 bits"}})
    tables, _, html = rendered(tmp_path, plan)
    main = html[html.index("<main") : html.index("</main>")]
    text = spaced(main.partition("Data set, method, machine")[0])
    assert "images/s" in text and "clips/s" not in text.replace("clips_per_second", "")
    _, heads, first, *_ = ranking_lines(tables, colour=False)
    end = heads.index(" images/s") + len(" images/s")
    assert first[:end].endswith("1,000") and first[end] == " ", "the column is as wide as its head"
    from scripts.report import charts

    with style():
        figure = picture(charts.every()["throughput"], {**tables, "machines": [], "baseline": None})
    labels = [axis.get_xlabel() + axis.get_ylabel() for axis in figure.axes]
    assert any("mages" in label for label in labels) and not any("lips" in label for label in labels)
