"""Gemini: the look-up is a function of this script, the refund a method of another module."""

from google import genai
from google.genai import types
from shop import PARAMETERS, PATIENCE_S, PRICES, Desk, GaveUpError, Shop, end, note


def find_order(order: int) -> dict:
    note("find_order", order=order)
    return {"order": order, "price": PRICES[order]}


DECLARED = [{"name": name, "parameters_json_schema": shape} for name, shape in PARAMETERS.items()]


def serve():
    client, desk = genai.Client(http_options=types.HttpOptions(timeout=int(PATIENCE_S * 1000))), Desk(7)
    tools = {"find_order": find_order, "refund": Shop().refund}
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=DECLARED)])
    contents = [types.Content(role="user", parts=[types.Part(text="Order 7 never came.")])]
    for _ in range(6):
        answer = client.models.generate_content(model="gemini-2.5-flash", contents=contents, config=config)
        if not answer.function_calls:
            return desk.finish()
        contents.append(answer.candidates[0].content)
        parts = []
        for call in answer.function_calls:
            text = desk.use(tools, call.name, call.args)
            parts.append(types.Part.from_function_response(name=call.name, response={"result": text}))
        contents.append(types.Content(role="user", parts=parts))
    raise GaveUpError("the model does not come to an end")


if __name__ == "__main__":
    end(serve)
