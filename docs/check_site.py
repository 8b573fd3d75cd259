"""Checks the built site: each link within it leads to a page and a place, and nothing is fetched.

python docs/check_site.py docs/_build       # status 1, and a line for each fault
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and the names of its places."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.places = set[str](), set[str](), {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links, loads and places of an element."""
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") not in ("search", "next", "prev", "index"):
            self.loads.add(values.get("href", ""))
        self.loads |= {values[name] for name in ("src", "data") if tag != "a" and name in values}


def faults(root: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and each thing that would be fetched."""
    files = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in files}
    found = []
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{name}: no file {link}")
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{name}: no place {link}")
    return found if pages else [f"{root} holds no page: build the site first"]


if __name__ == "__main__":
    lines = faults(Path(sys.argv[1]))
    print("\n".join(lines))
    sys.exit(bool(lines))
