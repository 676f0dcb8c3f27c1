"""GEPA: texts are rewritten by reflection on what went wrong, and kept where they win on some row."""

from burnish_gepa._frontier import Frontier as Frontier
from burnish_gepa._pool import Member as Member
from burnish_gepa._pool import Pool as Pool
from burnish_gepa._reflection import Proposer as Proposer
from burnish_gepa._reflection import Reflection as Reflection
from burnish_gepa._reflection import ReflectionProposer as ReflectionProposer
from burnish_gepa._report import GEPAReport as GEPAReport
from burnish_gepa._report import Iteration as Iteration
from burnish_gepa._report import MemberEntry as MemberEntry
from burnish_gepa._report import RejectedText as RejectedText
from burnish_gepa._search import GEPA as GEPA
from burnish_gepa._selection import Acceptance as Acceptance
from burnish_gepa._selection import AllImprovements as AllImprovements
from burnish_gepa._selection import BestImprovement as BestImprovement
from burnish_gepa._selection import ComponentSelector as ComponentSelector
from burnish_gepa._selection import Gain as Gain
from burnish_gepa._selection import Independent as Independent
from burnish_gepa._selection import ParentSelector as ParentSelector
from burnish_gepa._selection import PxN as PxN
from burnish_gepa._selection import SameParent as SameParent
from burnish_gepa._selection import Sampler as Sampler
from burnish_gepa._selection import SingleMutation as SingleMutation
from burnish_gepa._selection import Survivors as Survivors
from burnish_gepa._selection import TopK as TopK
