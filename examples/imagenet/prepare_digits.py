"""Write scikit-learn's 1,797 handwritten digits as an ImageFolder: train/<digit>/<n>.png and val/<digit>/<n>.png."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

SIDE = 32
EVERY = 5
"""Every fifth image is held out: 1,437 to train on, 360 to check with."""


def main() -> None:
    """Write them, once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    if out.exists():
        return
    draft = out.with_name(out.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        split = "val" if number % EVERY == 0 else "train"
        folder = draft / split / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((pixels * (255 / 16)).astype("uint8"))
        image.resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(folder / f"{number:04}.png")
    draft.rename(out)


if __name__ == "__main__":
    main()
