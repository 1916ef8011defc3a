"""The networks: any of torchvision's by name, and a small one for digits."""

from __future__ import annotations

import torchvision
from torch import Tensor, nn

DIGITS_SMALL = "digits-small"


class DigitsSmall(nn.Module):
    """A small convolutional network: (batch, 3, side, side) -> (batch, classes); about 0.1 million parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 3
        for wider in (32, 64, 128):
            layers += [nn.Conv2d(width, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
            width = wider
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores of the images."""
        return self.classifier(self.features(images))


def build(arch: str, classes: int) -> nn.Module:
    """The network of this name, untrained. Raises: ValueError with the names that torchvision has."""
    if arch == DIGITS_SMALL:
        return DigitsSmall(classes)
    names = torchvision.models.list_models(module=torchvision.models)
    if arch not in names:
        raise ValueError(f"no architecture {arch!r}; there are {DIGITS_SMALL} and torchvision's: {', '.join(names)}")
    return torchvision.models.get_model(arch, weights=None, num_classes=classes)
