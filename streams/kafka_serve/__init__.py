"""The lookup service and the web page in every Kafka worker."""
