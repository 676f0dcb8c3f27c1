"""What strategies share: proposals, minibatches, harvesting demos, drawing sets of them, choosing among candidates.

    demos = toolkit.harvest(evaluation.rollouts, problem.examples, problem.parameters, min_score=1.0, limit=4)

Everything here decides on its arguments alone: no clock, no random numbers but those of the `rng` it is given, and all
effects go through the engine.
"""

from burnish._runtime.apart import Apart as Apart
from burnish._runtime.engine import evaluation_of as evaluation_of
from burnish._toolkit.choose import best_of as best_of
from burnish._toolkit.choose import score_of as score_of
from burnish._toolkit.choose import spend_between as spend_between
from burnish._toolkit.demos import DemoPool as DemoPool
from burnish._toolkit.demos import draw as draw
from burnish._toolkit.demos import label_of as label_of
from burnish._toolkit.demos import labeled_demos as labeled_demos
from burnish._toolkit.demos import row_label as row_label
from burnish._toolkit.demos import with_demos as with_demos
from burnish._toolkit.epochs import Epochs as Epochs
from burnish._toolkit.harvest import harvest as harvest
from burnish._toolkit.harvest import success_bar as success_bar
from burnish._toolkit.proposals import ATTEMPTS as ATTEMPTS
from burnish._toolkit.proposals import Check as Check
from burnish._toolkit.proposals import Proposal as Proposal
from burnish._toolkit.proposals import Rejected as Rejected
from burnish._toolkit.proposals import placeholders as placeholders
from burnish._toolkit.proposals import propose as propose
from burnish._toolkit.proposals import text_check as text_check
from burnish._toolkit.rows import Separation as Separation
from burnish._toolkit.rows import separate as separate
from burnish._toolkit.teacher import Taught as Taught
from burnish._toolkit.teacher import Teaching as Teaching
from burnish._toolkit.teacher import teach as teach
