# quire without a GPU, on Debian 12:
#
#     docker build -t quire .
#     docker run --rm -v "$PWD":/work quire replay TRACE --out out
#
# bench/demo.sh installs what is missing, builds and replays the example trace, so a failing build
# fails here.
FROM debian:12 AS build
COPY . /src
RUN bash /src/bench/demo.sh /tmp/demo \
	&& cmake --install /src/build/release --prefix /usr/local --strip

FROM debian:12-slim
RUN apt-get update \
	&& apt-get install --yes --no-install-recommends libcjson1 libxxhash0 libyajl2 zlib1g libzstd1 \
		libpcre2-8-0 libutf8proc2 gnuplot-nox \
	&& rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/local /usr/local
WORKDIR /work
ENTRYPOINT ["quire"]
