"""Finding and reading configs."""

import pytest

from offbook.config import find_config, load_config
from offbook.errors import InputError

AGENT = '[agent]\nhandler = "my_agent:handle"\n'


@pytest.fixture
def config(tmp_path):
    """The config in a text."""

    def config(text, name="offbook.toml"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(file)

    return config


def test_every_key_can_be_said(config):
    read = config(
        AGENT
        + 'name = "a"\nprovider = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
        + '[agents.b]\nendpoint = "http://127.0.0.1:1"\nheaders = {A = "${B}"}\nbody = {c = [1]}\n'
        + 'model = "m"\nstream = true\n'
        + '[agents.c]\nworkflow = "flow.yaml"\ninput = "in"\noutput = "out"\n'
        + '[agents.d]\nrunner = "a.b:c"\nprovider = "ollama"\nmodel = "m"\nprompt_vars = {x = 1}\nmax_iterations = 3\n'
        + '[user]\nprovider = "google"\nmodel = "m"\ntemplate = "t.txt"\ntemperature = 1\nmax_tokens = 5\n'
        + '[judge]\nprovider = "anthropic"\nmodel = "m"\nmetrics = ["helpfulness"]\nthresholds = {helpfulness = 3}\n'
        + "temperature = 0.5\nmax_tokens = 5\n"
        + '[run]\nscenarios = ["sims/*.py"]\nconversations = 2\nmax_turns = 3\nconcurrency = 4\nanswer_timeout_s = 5\n'
        + 'unmocked = "passthrough"\nbudget_usd = 1\nrepeat = 2\nfail_on = ["critical"]\n'
    )
    assert list(read.agents) == ["a", "b", "c", "d"]
    assert read.agents["b"].headers == {"A": "${B}"}
    assert read.user.temperature == 1.0
    assert read.judge.thresholds == {"helpfulness": 3.0}
    assert read.run.scenarios == ("sims/*.py",)
    assert read.run.fail_on == ("critical",)


def test_the_nearest_config_counts(tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "offbook.toml").write_text(AGENT)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_config(below).source == str(tmp_path / "offbook.toml")
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.offbook.agent]\nname = "x"\nhandler = "m:f"\n')
    found = find_config(below)
    assert list(found.agents) == ["x"]
    assert found.folder == (tmp_path / "a").resolve()


def test_without_a_config_it_is_said_what_to_write(tmp_path):
    with pytest.raises(InputError, match=r"there is no offbook.toml here or above\n  hint: create .*\n    \[agent\]"):
        find_config(tmp_path)


def test_a_project_file_can_be_named(config):
    read = config('[tool.offbook.agent]\nhandler = "m:f"\n', "pyproject.toml")
    assert list(read.agents) == ["agent"]


def test_a_project_file_without_a_section_is_no_config(config):
    with pytest.raises(InputError, match=r"there is no \[tool.offbook\]"):
        config("[tool]\nruff = {}\n", "pyproject.toml")
    with pytest.raises(InputError, match=r"there is no \[tool.offbook\]"):
        config("tool = 1\n", "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[agents", "invalid TOML"),
        (b"\xff", "not UTF-8"),
        ("[agnet]\n", "unknown section 'agnet'\n  hint: did you mean 'agent'?"),
        ("agent = 1\n", "agent: expected a table"),
        ("[agent]\n", "agent: the kind of agent is missing\n  hint: an agent has one of: endpoint"),
        ('[agent]\nhandlr = "a:b"\n', "did you mean 'handler'?"),
        ('[agent]\nhandler = "a:b"\nendpoint = "http://x"\n', "one of handler and endpoint, not both"),
        ('[agent]\nhandler = "a.b"\n', "agent.handler: expected 'module:name', got 'a.b'"),
        (
            '[agent]\nhandler = "a:b"\nprovidr = "openai"\n',
            "agent.providr: unknown key 'providr'\n  hint: did you mean",
        ),
        (
            '[agent]\nhandler = "a:b"\nprovider = "opnai"\n',
            "agent.provider: unknown value 'opnai'\n  hint: did you mean",
        ),
        ('[agent]\nhandler = "a:b"\nname = "a/b"\n', "agent.name: 'a/b' is not a valid"),
        ('[agent]\nhandler = "a:b"\nname = 3\n', "agent.name: 3 is not a valid"),
        ("[agents]\na = 1\n", "agents.a: expected a table"),
        ('[agent]\nhandler = "a:b"\n[agents.agent]\nhandler = "a:b"\n', "two agents named 'agent'"),
        ('[agent]\nendpoint = "http://x"\nheaders = {A = 1}\n', "agent.headers.A: expected a string, got 1"),
        ('[agent]\nendpoint = ""\n', "agent.endpoint: expected a value, got an empty one"),
        ('[agent]\nrunner = "a:b"\nprovider = "openai"\n', "agent.model: required, but missing"),
        ("[user]\n", "user.provider: required, but missing"),
        ('[user]\nprovider = "openai"\nmodel = "m"\ntemperature = 3\n', "user.temperature: expected at most 2, got 3"),
        ('[judge]\nmetrics = "helpfulness"\n', "judge.metrics: "),
        ("[judge]\nthresholds = {a = true}\n", "judge.thresholds.a: expected a number, got true"),
        ("[run]\nconcurrency = 0\n", "run.concurrency: expected more than 0, got 0"),
        ("[run]\nrepeat = 1.5\n", "run.repeat: expected an integer, got 1.5"),
        ("[run]\nfail_on = ['grave']\n", "run.fail_on.0: unknown value 'grave'\n  hint: one of: "),
        ("[run]\nunmocked = {}\n", "run.unmocked: unknown value a table"),
        ("[run]\nanswer_timeout_s = inf\n", "run.answer_timeout_s: "),
        ("[run]\nmax_turns = ['x']\n", "run.max_turns: expected an integer, got a list"),
    ],
)
def test_what_is_wrong_is_reported_with_its_key(config, text, complaint):
    with pytest.raises(InputError) as caught:
        config(text)
    assert complaint in str(caught.value)
    assert "offbook.toml" in caught.value.source


def test_a_file_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        load_config(tmp_path / "nowhere.toml")
