"""Networks that several chapters train; recurrent ones are in `models.recurrence`."""

from learning_dynamics.models import recurrence
from learning_dynamics.models.attention import Encoder, EncoderBlock, attention, attention_weights, sinusoids
from learning_dynamics.models.cnn import SmallCNN
from learning_dynamics.models.gated_head import GatedHead
from learning_dynamics.models.lenet import LeNet
from learning_dynamics.models.mlp import MLP
from learning_dynamics.models.resnet import PreActivationResNet18

__all__ = [
    "MLP",
    "Encoder",
    "EncoderBlock",
    "GatedHead",
    "LeNet",
    "PreActivationResNet18",
    "SmallCNN",
    "attention",
    "attention_weights",
    "recurrence",
    "sinusoids",
]
