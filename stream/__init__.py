"""The ground: the record, its wire format, topics, publisher, subscriber and the steps that run between them."""
