"""MIPROv2: instructions and demos together, searched by TPE on minibatches."""

from burnish_miprov2._miprov2 import MIPROv2 as MIPROv2
from burnish_miprov2._report import MIPROv2Report as MIPROv2Report
from burnish_miprov2._report import Proposed as Proposed
from burnish_miprov2._report import Rejection as Rejection
from burnish_miprov2._report import Trial as Trial
