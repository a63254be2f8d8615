# dustream with its machine code compiled. Any user may run it:
#   docker build -t dustream .
#   docker run --rm -v "$PWD:/data" -w /data -u "$(id -u)" dustream run crawl.warc.gz --out result
# The code is compiled for the processor of the machine that builds the image; on another kind it is compiled again.
FROM python:3.11-slim
WORKDIR /dustream
ENV NUMBA_CACHE_DIR=/var/cache/dustream PYTHONDONTWRITEBYTECODE=1
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY api api
COPY core core
COPY schemas schemas
COPY streams streams
RUN pip install --no-cache-dir --no-deps . \
    && dustream compile --all \
    && chmod -R a+rwX "$NUMBA_CACHE_DIR"
ENTRYPOINT ["dustream"]
