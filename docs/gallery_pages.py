"""Make the gallery of ``examples/``: the page, and with ``python docs/gallery_pages.py`` its pictures.

The first line of a script's docstring is its title, the rest its text. A picture is what the script draws.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "images" / "examples"
WIDTH = 900  # pixels
ORDER = (
    "known_edges",
    "own_cohort",
    "connectogram",
    "honest_evaluation",
    "harmonise_sites",
    "compare_explainers",
    "molecules",
    "grid_search",
    "saved_model",
    "dask_cluster",
)


def pages() -> dict[str, str]:
    """Path below docs → Markdown."""
    parts = [
        "# Gallery",
        "Short scripts, in `examples/`. Each makes its own data, runs in less than a minute on two cores and "
        "writes into the current folder.",
    ]
    return {"gallery.md": "\n\n".join(parts + [_section(name) for name in ORDER]) + "\n"}


def _section(name: str) -> str:
    code = (EXAMPLES / f"{name}.py").read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(code)) or ""
    title, _, text = docstring.partition("\n")
    parts = [f"## {title.rstrip('.')} {{ #{name} }}", text.strip()]
    if (PICTURES / f"{name}.png").is_file():
        parts.append(f"![{title.rstrip('.')}](images/examples/{name}.png)")
    body = code.split('"""', 2)[2].strip()
    return "\n\n".join([*parts, f'```python title="examples/{name}.py"\n{body}\n```'])


def draw() -> None:
    """Run every script in a folder of its own and keep what it draws."""
    PICTURES.mkdir(exist_ok=True)
    for name in ORDER:
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, str(EXAMPLES / f"{name}.py")]
            subprocess.run(script, cwd=folder, env=os.environ | {"MPLBACKEND": "Agg"}, check=True)
            for picture in Path(folder).glob(f"{name}.png"):
                shrink(picture, PICTURES / picture.name)


def shrink(source: Path, target: Path) -> None:
    """Copy a picture in the width of a page, with few colours."""
    with Image.open(source) as image:
        small = image.convert("RGB")
        small.thumbnail((WIDTH, 10 * WIDTH))
        small.quantize(64).save(target, optimize=True)


if __name__ == "__main__":
    draw()
