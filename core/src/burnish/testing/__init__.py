"""What tests of programs, strategies and plugins need: models that answer from a script, or from what was recorded."""

from burnish._runtime.playback import RecordedModel as RecordedModel
from burnish._runtime.playback import Replay as Replay
from burnish._runtime.playback import ReplayReport as ReplayReport
from burnish._runtime.playback import replay as replay
from burnish._runtime.tapes import Divergence as Divergence
from burnish.testing.models import NearestDemoModel as NearestDemoModel
from burnish.testing.models import ScriptedModel as ScriptedModel
from burnish.testing.models import ScriptEndedError as ScriptEndedError
