"""The page's JavaScript and CSS, from small files into one of each, without a tool to build them."""

from __future__ import annotations

import base64
import re
from pathlib import Path

ASSETS = Path(__file__).with_name("assets")
FONTS = {"Source Serif 4": ("source-serif-4", "200 900"), "STIX Two Math": ("stix-two-math", "400")}
IMPORT = re.compile(r"^import \{[^}]*\} from \"\./([\w-]+\.js)\";\n", re.MULTILINE)


def script(entry: str = "main.js") -> str:
    """The modules that `entry` imports, each once and after those that it imports itself, then `entry`.

    They become one block of code: what they import is there already, and what two of them name alike is an error.
    """
    written: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in written:
            return
        text = (ASSETS / name).read_text(encoding="utf-8")
        written[name] = ""
        for needed in IMPORT.findall(text):
            visit(needed)
        del written[name]  # again, to come after what it needs
        written[name] = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)

    visit(entry)
    return "".join(f"// ---- {name} ----\n\n{text.strip()}\n\n" for name, text in written.items())


def style() -> str:
    """All style sheets, and the fonts in them."""
    sheets = [path.read_text(encoding="utf-8") for path in sorted(ASSETS.glob("*.css"))]
    return "".join(map(_font, FONTS)) + "\n".join(sheets)


def _font(family: str) -> str:
    file, weight = FONTS[family]
    content = base64.b64encode((ASSETS / "fonts" / f"{file}.woff2").read_bytes()).decode()
    source = f"url(data:font/woff2;base64,{content}) format('woff2')"
    return f"@font-face {{ font-family: '{family}'; font-weight: {weight}; font-display: swap; src: {source}; }}\n"
