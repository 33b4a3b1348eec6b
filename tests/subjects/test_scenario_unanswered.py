"""Explored scenarios whose agent swallows the error of a call without an answer."""

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.subjects.specs import open_subject
from tests.subjects.projects import DESK
from tests.subjects.test_scenario import spec

TELL = """\
    {condition}
        try:
            await ctx.resolve_tool('tell', {})
        except Exception:
            pass
    said ="""
GIVES_UP = TELL.replace("            pass\n", "            raise RuntimeError('cannot tell')\n")


def explored(project, desk):
    with open_subject(spec(project.scenario(desk=desk)), ExploreSettings()) as subject:
        return Explorer(subject, ExploreOptions(variants=select_variants("tool_error"))).explore()


def test_a_clean_run_that_swallows_one_is_not_clean(project):
    with pytest.raises(InputError, match=r"the run fails without any fault: .*'tell' was called, but no mock"):
        explored(project, DESK.replace("    said =", TELL.replace("{condition}", "if True:")))


@pytest.mark.parametrize("reaction", [TELL, GIVES_UP])
def test_one_that_follows_a_fault_is_nothing_that_the_agent_did_wrong(project, reaction):
    desk = DESK.replace("    said =", reaction.replace("{condition}", "if 'error' in paid:"))
    [each, *_] = explored(project, desk).results
    assert each.verdict == "undecided"
    assert "'tell'" in each.assessment.evidence[0]
