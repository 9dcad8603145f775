"""The documents as data: fenced blocks, links, headings, and the names that they mention.

A block's first word is its language, the second says how it is checked. `file=NAME`: an agent's or a script's file.
`case=NAME`: a case's, which nobody serves. `expect=NAME`: a file of expectations.
`live`: run for real, in order, on the desk of `desk.py`; for text, what that printed. `test`: run by pytest, as an
author would. `demo`: printed by the demo. Without a second word: python is executed, commands are parsed by the real
command line, and data is loaded. Nothing else is allowed: a block that nobody checks is a defect.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
KINDS = {
    *("python", "python file", "python live", "python test"),
    *("bash", "bash live", "yaml file", "yaml case", "yaml expect", "json", "toml"),
    *("text live", "text demo", "mermaid"),
}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: str
    text: str

    @property
    def kind(self) -> str:
        return self.info.partition("=")[0]

    @property
    def file(self) -> str:
        return self.info.partition("=")[2]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Link:
    page: Path
    target: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)} -> {self.target}"


def _blocks(page: Path) -> Iterator[Block]:
    for token in MarkdownIt().parse(page.read_text()):
        if token.type in ("fence", "code_block"):
            line = token.map[0] + 1 if token.map else 0
            yield Block(page, line, token.info.strip(), token.content)


def _links(page: Path) -> Iterator[Link]:
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        for child in token.children or []:
            target = child.attrs.get("href") or child.attrs.get("src")
            if target:
                yield Link(page, str(target))


BLOCKS = [block for page in PAGES for block in _blocks(page)]
LINKS = [link for page in PAGES for link in _links(page)]


def of_kind(*kinds: str, page: Path | None = None) -> list[Block]:
    return [block for block in BLOCKS if block.kind in kinds and page in (None, block.page)]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them in links."""
    tokens = MarkdownIt().parse(page.read_text())
    texts = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def code_spans(page: Path) -> list[str]:
    inline = (child for token in MarkdownIt().enable("table").parse(page.read_text()) for child in token.children or [])
    return [child.content for child in inline if child.type == "code_inline"]
