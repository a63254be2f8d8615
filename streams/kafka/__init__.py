"""The topology on Kafka: a broker to try it on, topics, exactly-once tasks, Faust workers, the tools around them."""
