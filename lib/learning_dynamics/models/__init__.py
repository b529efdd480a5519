"""Networks that several chapters train."""

from learning_dynamics.models.cnn import SmallCNN
from learning_dynamics.models.gated_head import GatedHead
from learning_dynamics.models.lenet import LeNet
from learning_dynamics.models.mlp import MLP
from learning_dynamics.models.resnet import PreActivationResNet18

__all__ = [
    "MLP",
    "GatedHead",
    "LeNet",
    "PreActivationResNet18",
    "SmallCNN",
]
