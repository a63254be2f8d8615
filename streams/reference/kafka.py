"""Topics and metrics of the Kafka engine."""

from __future__ import annotations

from dustream.core.pipeline import CRAWL_PAGES, DEAD_LETTERS, PAGES, pipeline
from dustream.core.settings import Settings
from dustream.core.topology import ProcessorSpec, Topic, Topology
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.metrics import BY_PROCESSOR, HELP
from dustream.streams.reference.markdown import sentence, table

TOPICS_INTRODUCTION = """\
# Topics

Names on the cluster begin with the application's name: `dustream.crawl.pages`. `dustream topics describe` prints every
topic with its settings. Public topics hold JSON ([messages](messages.md)); the others hold msgpack and may change with
any release. Read public topics with `isolation.level=read_committed`: each status then appears exactly once. Any worker
may write a dead letter; `maps` holds the partition map and the settings of the application.

"""
METRICS_INTRODUCTION = """\
# Metrics

`dustream worker --health-port N` serves these at `/metrics`, in the text format of Prometheus. Every
counter exists from the start, with 0.

"""
WRITERS = {
    CRAWL_PAGES: "you, `dustream publish`",
    DEAD_LETTERS: "all, `dustream publish`",
    "maps": "`dustream topics create`, `dead redrive`",
}
READERS = {"maps": "all"}
_DAY_MS = 86_400_000


def topics_page() -> str:
    from dustream.streams.kafka.topics import plan_topics

    topology = _topology(Settings())
    configs = {plan.name: plan.config for plan in plan_topics(topology, Application()).plans}
    application = Application()
    rows = [_topic_row(topology, topic, configs[application.topic(topic.name)]) for topic in topology.topics]
    rows += [
        (f"`{spec.name}.changelog`", "row", "internal", f"`{spec.name}`", f"`{spec.name}`", _kept(config))
        for spec in topology.processors
        if (config := configs.get(application.changelog(spec.name)))
    ]
    processors = [
        (
            f"`{spec.name}`",
            f"`{spec.input}`",
            ", ".join(f"`{name}`" for name in spec.outputs),
            ", ".join(f"`{each.name}`" for each in spec.tables),
        )
        for spec in topology.processors
    ]
    return "\n".join(
        [
            TOPICS_INTRODUCTION,
            table(("topic", "key", "content", "written by", "read by", "retention"), rows),
            "## Processors\n",
            table(("processor", "input", "outputs", "state tables"), processors),
        ]
    )


def _topology(settings: Settings) -> Topology:
    """As it runs on Kafka: the pipeline, with intake before it."""
    from dustream.streams.kafka.assembly import INTAKE
    from dustream.streams.kafka.maps import MAPS

    pipe = pipeline(settings)
    outputs = (PAGES, DEAD_LETTERS)
    intake = ProcessorSpec(INTAKE, CRAWL_PAGES, outputs, (), settings.partitions, pipe.processors[0].make)
    return Topology((*pipe.topics, MAPS), (intake, *pipe.processors))


def _topic_row(topology: Topology, topic: Topic, config: dict[str, str]) -> tuple[str, ...]:
    writers = ", ".join(f"`{spec.name}`" for spec in topology.processors if topic.name in spec.outputs)
    reader = topology.reader(topic.name)
    return (
        f"`{topic.name}`",
        topic.key,
        _content(topic),
        WRITERS.get(topic.name) or writers,
        f"`{reader.name}`" if reader else READERS.get(topic.name, "you"),
        _kept(config),
    )


def _content(topic: Topic) -> str:
    name = getattr(topic.message, "__name__", "")
    return f"[{name}](messages.md#{name.lower()})" if topic.public and name else "internal"


def _kept(config: dict[str, str]) -> str:
    if config.get("cleanup.policy") == "compact":
        return "compacted: the newest of each key"
    milliseconds = int(config["retention.ms"])
    return "for ever" if milliseconds < 0 else f"{milliseconds // _DAY_MS} days"


def metrics_page() -> str:
    rows = []
    for name, (kind, text) in HELP.items():
        full = f"dustream_{name}_total" if kind == "counter" else f"dustream_{name}"
        rows.append((f"`{full}`", kind, "`processor`" if name in BY_PROCESSOR else "", sentence(text)))
    return METRICS_INTRODUCTION + table(("metric", "type", "labels from the start", "meaning"), rows)
