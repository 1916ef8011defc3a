"""ImageFolder data sets that say which sample each image is."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torchvision import datasets
from torchvision.transforms import v2

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's RGB values. Source: torchvision's reference training."""


class Images(datasets.ImageFolder):
    """An ImageFolder whose items are (image, class, index)."""

    def __getitem__(self, index: int) -> tuple[Tensor, int, int]:
        """The image, its class, and the index that the ledger records."""
        image, label = super().__getitem__(index)
        return image, label, index


def training_images(folder: Path, side: int, *, flip: bool) -> Images:
    """The training split with the standard augmentation. `flip`: digits, unlike cats, have a left and a right."""
    least = 0.08 if flip else 0.7
    steps: list[v2.Transform] = [v2.RandomResizedCrop(side, scale=(least, 1.0), antialias=True)]
    if flip:
        steps.append(v2.RandomHorizontalFlip())
    return Images(folder, transform=v2.Compose([*steps, *_to_tensor()]))


def held_out_images(folder: Path, side: int) -> Images:
    """The validation split: the middle of each image, enlarged a little as usual."""
    resize = [v2.Resize(round(side * 256 / 224), antialias=True), v2.CenterCrop(side)]
    return Images(folder, transform=v2.Compose([*resize, *_to_tensor()]))


def _to_tensor() -> list[v2.Transform]:
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
