"""Conformance classes: whether a plugin of a kind does what its users rely on. Run them with pytest.

    class TestMyCache(CacheConformance):
        capabilities = frozenset({"persistent"})

        @asynccontextmanager
        async def open(self, tmp_path):
            async with open_mine(MyOptions(path=str(tmp_path / "cache")), Environment()) as cache:
                yield cache

Each class says in its docstring what else it needs. `xfail` marks the one test that your plugin fails and why; a test
can not be overridden otherwise.
"""

from __future__ import annotations

from burnish.testing._conformance_base import Conformance as Conformance
from burnish.testing._conformance_base import Xfail as Xfail
from burnish.testing._conformance_base import check_loop_is_free as check_loop_is_free
from burnish.testing._conformance_base import check_nothing_is_left as check_nothing_is_left
from burnish.testing._conformance_base import needs as needs
from burnish.testing._conformance_base import xfail as xfail
from burnish.testing._conformance_cache import CacheConformance as CacheConformance
from burnish.testing._conformance_meter import MeterConformance as MeterConformance
from burnish.testing._conformance_model import ModelConformance as ModelConformance
from burnish.testing._conformance_sink import SinkConformance as SinkConformance
