"""What tests of programs, strategies and plugins need: models that answer from a script."""

from burnish.testing.models import NearestDemoModel as NearestDemoModel
from burnish.testing.models import ScriptedModel as ScriptedModel
from burnish.testing.models import ScriptEndedError as ScriptEndedError
