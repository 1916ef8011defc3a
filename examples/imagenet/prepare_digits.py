"""Write scikit-learn's 1,797 handwritten digits as an ImageFolder: train/<digit>/<n>.png and val/<digit>/<n>.png."""

from __future__ import annotations

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32
EVERY = 5
"""Every fifth image is held out: 1,437 to train on, 360 to check with."""


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The images, uint8 [N, 8, 8] from 0 to 255, and their digits, int [N], from the file that scikit-learn brings.

    `sklearn.datasets.load_digits` reads the same file, but importing it takes longer than all the rest of this program,
    and each node of a job runs it while it boots.
    """
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("prepare_digits.py needs scikit-learn: pip install scikit-learn")
    file = Path(package.submodule_search_locations[0]) / "datasets/data/digits.csv.gz"
    table = np.loadtxt(file, delimiter=",")  # 64 pixels from 0 to 16, then the digit
    return (table[:, :64] * (255 / 16)).astype("uint8").reshape(-1, 8, 8), table[:, 64].astype(int)


def main() -> None:
    """Write them, once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    if out.exists():
        return
    draft = out.with_name(out.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    for number, (pixels, label) in enumerate(zip(*load_digits(), strict=True)):
        split = "val" if number % EVERY == 0 else "train"
        folder = draft / split / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(pixels)
        image.resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(folder / f"{number:04}.png")
    draft.rename(out)


if __name__ == "__main__":
    main()
