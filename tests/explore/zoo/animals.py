"""All agents of the zoo."""

from tests.explore.zoo import scenarios, workflows
from tests.explore.zoo.functions import answers, effects, frameworks, loops, retries
from tests.explore.zoo.programs import rows as programs

MODULES = (effects, answers, retries, loops, frameworks, workflows, scenarios, programs)
ANIMALS = [planted for module in MODULES for planted in module.PLANTED]
