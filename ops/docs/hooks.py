"""Hooks of mkdocs: a page of the site cannot link to files outside docs/, so such a link becomes the file's path."""

import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]*)(#[^)]*)?\)")


def on_page_markdown(markdown, page, config, **_):
    docs = Path(config["docs_dir"])
    folder = docs / Path(page.file.src_uri).parent

    def plain(link):
        target = (folder / link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri}: {link[2]} does not exist")
        return f"{link[1]} (`{target.relative_to(docs.parent)}`)"

    return LINK.sub(plain, markdown)
