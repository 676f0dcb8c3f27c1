"""COPRO: better instructions by coordinate ascent, from attempts and their scores."""

from burnish_copro._copro import COPRO as COPRO
from burnish_copro._report import Attempt as Attempt
from burnish_copro._report import COPROReport as COPROReport
from burnish_copro._report import RejectedProposal as RejectedProposal
from burnish_copro._report import Turn as Turn
