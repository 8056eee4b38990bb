# fastload-bench in a container:
#
#   docker build --tag fastload .
#   docker run --rm fastload                                         # its own sample
#   docker run --rm -v /data:/data:ro fastload '/data/*.parquet'     # your files
#
# Worker processes share memory by memfd: no --shm-size is needed for batches.

ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim-bookworm
# CPU builds of torch; for a GPU, build with --build-arg TORCH_INDEX=https://pypi.org/simple
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" --constraint /tmp/constraints.txt \
        /wheels/*.whl polars \
    && rm -rf /wheels /tmp/constraints.txt
RUN useradd --create-home bench
USER bench
WORKDIR /home/bench
ENTRYPOINT ["fastload-bench"]
