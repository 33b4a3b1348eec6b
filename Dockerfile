# Serves the model APIs from a recording:
#   docker build --tag offbook .
#   docker run --rm --publish 127.0.0.1:4010:4010 --volume "$PWD/runs:/runs:ro" --env OFFBOOK_API_KEY=secret offbook
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels ".[observability,redis]"

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --no-index /wheels/*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 offbook
USER 1000
WORKDIR /home/offbook
EXPOSE 4010
# beyond loopback it asks for a key: OFFBOOK_API_KEY
ENTRYPOINT ["offbook", "serve", "--host", "0.0.0.0", "--port", "4010"]
CMD ["--replay", "/runs"]
