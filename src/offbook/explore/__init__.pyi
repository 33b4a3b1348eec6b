"""Replays a recorded run with each fault at each of its calls, and judges what the run makes of it."""

from offbook.explore.explorer import CaseResult as CaseResult
from offbook.explore.explorer import Exploration as Exploration
from offbook.explore.explorer import Explorer as Explorer
from offbook.explore.harness import Harness as Harness
from offbook.explore.options import Divergence as Divergence
from offbook.explore.options import ExploreOptions as ExploreOptions
from offbook.explore.options import select_variants as select_variants
from offbook.explore.run import Run as Run
from offbook.subjects.function import FunctionSubject as FunctionSubject
from offbook.subjects.function import explore_function as explore_function
