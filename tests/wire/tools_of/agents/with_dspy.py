"""An agent of DSPy, which asks for tools in the text of its answers."""

import os

import dspy
from shop import QUESTION, finish, look_up, refund

dspy.configure(lm=dspy.LM("openai/gpt-4o", api_base=os.environ["OPENAI_BASE_URL"], cache=False))
finish(dspy.ReAct("question -> answer", tools=[look_up, refund])(question=QUESTION).answer)
