# Serves the page, which is also the API, on an index: convsim demo INDEX. An index names its model by the path that it
# was built with, so mount the folder in which it was built:
#   docker build -t convsim .
#   docker run --rm -p 127.0.0.1:7860:7860 --user "$(id -u)" -v "$PWD:/work:ro" convsim runs/support
FROM python:3.12-slim AS wheel
WORKDIR /convsim
COPY pyproject.toml README.md LICENSE ./
COPY data_scripts data_scripts
COPY model_cards model_cards
COPY modeling_convsim modeling_convsim
COPY trainer trainer
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    pip install --no-cache-dir --no-compile -c /constraints.txt "$(echo /wheels/*.whl)[demo]"
ENV GRADIO_SERVER_NAME=0.0.0.0 HOME=/tmp
WORKDIR /work
USER nobody
EXPOSE 7860
ENTRYPOINT ["convsim", "demo"]
