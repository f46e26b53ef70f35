"""Writes the scenes anew, as the code of today makes them: `make scenes`, then read what `git diff` says.

python -m tests.scenes.renew
"""

from tests.scenes.made import HERE, errors, page, terminal


def main() -> None:
    """Write each scene, and name those that changed."""
    wrong = (HERE / "errors.txt").read_text(encoding="utf-8")
    for name, text in {"terminal.txt": terminal(), "page.txt": page(), "errors.txt": errors(wrong)}.items():
        path = HERE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"renewed: {path}")


if __name__ == "__main__":
    main()
