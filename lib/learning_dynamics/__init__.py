"""The library behind *Learning Dynamics*, an executable textbook on the dynamics of learning.

Nothing heavy is imported here: reading a chapter's records (`learning_dynamics.ledger.read`) needs neither
torch nor numpy.
"""

__version__ = "0.1.0"
