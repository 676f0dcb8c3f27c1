"""Few-shot demos from the program's own successes: `BootstrapFewShot` and `BootstrapRandomSearch`."""

from burnish_bootstrap._fewshot import BootstrapFewShot as BootstrapFewShot
from burnish_bootstrap._random_search import BootstrapRandomSearch as BootstrapRandomSearch
from burnish_bootstrap._report import BootstrapReport as BootstrapReport
